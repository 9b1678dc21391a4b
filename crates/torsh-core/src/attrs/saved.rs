//! Copies of attributes that outlive their call.

use std::fmt;
use std::mem::MaybeUninit;

use super::{Attributes, NONE, Nothing};

/// The words that small structs are kept in without memory of their own: enough for a shape.
const WORDS: usize = 7;

type Buffer = MaybeUninit<[u64; WORDS]>;

/// A copy of a call's [`Attributes`], as the recorded graph has it. Structs of up to seven words
/// are in it, larger ones on the heap.
///
/// ```
/// use torsh_core::{SavedAttributes, attrs};
/// let saved = SavedAttributes::new(attrs::Softmax { dim: 1 });
/// assert_eq!(attrs::display(saved.clone().get()).to_string(), "dim=1");
/// assert!(SavedAttributes::default().get().is_none());
/// ```
pub struct SavedAttributes {
    buffer: Buffer,
    table: &'static Table,
}

/// What can be done with a struct that is kept.
struct Table {
    /// # Safety
    /// The buffer holds the table's struct.
    get: unsafe fn(&Buffer) -> &dyn Attributes,
    /// # Safety
    /// As for `get`; the buffer is not used again.
    drop: Option<unsafe fn(&mut Buffer)>,
}

/// Whether a `T` is kept in the buffer itself.
const fn fits<T>() -> bool {
    size_of::<T>() <= size_of::<Buffer>() && align_of::<T>() <= align_of::<Buffer>()
}

/// # Safety
/// The buffer holds a `T`.
unsafe fn get<T: Attributes>(buffer: &Buffer) -> &dyn Attributes {
    // SAFETY: the caller's promise; a `T` fits, see `SavedAttributes::new`.
    unsafe { &*buffer.as_ptr().cast::<T>() }
}

/// # Safety
/// The buffer holds a `Box<T>`.
unsafe fn get_boxed<T: Attributes>(buffer: &Buffer) -> &dyn Attributes {
    // SAFETY: the caller's promise.
    unsafe { &**buffer.as_ptr().cast::<Box<T>>() }
}

/// # Safety
/// The buffer holds a `T`, which is not used again.
unsafe fn drop_in<T>(buffer: &mut Buffer) {
    // SAFETY: the caller's promise.
    unsafe { buffer.as_mut_ptr().cast::<T>().drop_in_place() }
}

struct Tables<T>(std::marker::PhantomData<T>);

impl<T: Attributes> Tables<T> {
    const PLAIN: Table = Table {
        get: get::<T>,
        drop: if std::mem::needs_drop::<T>() {
            Some(drop_in::<T>)
        } else {
            None
        },
    };
    const BOXED: Table = Table {
        get: get_boxed::<T>,
        drop: Some(drop_in::<Box<T>>),
    };
}

impl SavedAttributes {
    /// What is kept of a call without attributes.
    pub const NOTHING: SavedAttributes = SavedAttributes {
        buffer: MaybeUninit::uninit(),
        table: &Tables::<Nothing>::PLAIN,
    };

    /// Keeps a struct.
    ///
    /// ```
    /// use torsh_core::{SavedAttributes, attrs};
    /// let saved = SavedAttributes::new(attrs::Cat { dim: 2 });
    /// assert_eq!(saved.get().name(), "Cat");
    /// ```
    #[inline]
    pub fn new<T: Attributes>(attrs: T) -> SavedAttributes {
        let mut buffer = Buffer::uninit();
        if const { fits::<T>() } {
            // SAFETY: the buffer is large and aligned enough, and nobody else has it.
            unsafe { buffer.as_mut_ptr().cast::<T>().write(attrs) };
            SavedAttributes {
                buffer,
                table: &Tables::<T>::PLAIN,
            }
        } else {
            // SAFETY: a box is one word.
            unsafe { buffer.as_mut_ptr().cast::<Box<T>>().write(Box::new(attrs)) };
            SavedAttributes {
                buffer,
                table: &Tables::<T>::BOXED,
            }
        }
    }

    /// Returns the attributes.
    ///
    /// ```
    /// use torsh_core::{SavedAttributes, attrs};
    /// let saved = SavedAttributes::new(attrs::Cat { dim: 2 });
    /// assert_eq!(saved.get().expect::<attrs::Cat>()?.dim, 2);
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    #[inline]
    pub fn get(&self) -> &dyn Attributes {
        // SAFETY: buffer and table were made together, in `new` or `NOTHING` (whose struct has no
        // bytes).
        unsafe { (self.table.get)(&self.buffer) }
    }
}

impl Drop for SavedAttributes {
    #[inline]
    fn drop(&mut self) {
        if let Some(drop) = self.table.drop {
            // SAFETY: as in `get`; nothing follows.
            unsafe { drop(&mut self.buffer) }
        }
    }
}

// SAFETY: the struct inside is `Send`, as `Attributes` asks.
unsafe impl Send for SavedAttributes {}
// SAFETY: the struct inside is `Sync`, as `Attributes` asks.
unsafe impl Sync for SavedAttributes {}

impl Clone for SavedAttributes {
    fn clone(&self) -> SavedAttributes {
        self.get().save()
    }
}

impl Default for SavedAttributes {
    fn default() -> SavedAttributes {
        NONE.save()
    }
}

impl fmt::Debug for SavedAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use crate::attrs::{Field, Ints, NONE, SavedAttributes, display, read};
    use crate::{DType, Scalar};

    crate::attributes! {
        /// Small, without anything to drop.
        Small { n: i64, x: f64 }
        /// Small, with a list that may be on the heap.
        List { dims: Ints, keepdim: bool }
        /// Too large to be kept in place.
        Large { a: Ints, b: Ints, dtype: Option<DType>, s: Scalar }
    }

    #[test]
    fn structs_of_all_sizes_are_kept_and_copied() {
        let small = SavedAttributes::new(Small { n: 3, x: 0.5 });
        let list = SavedAttributes::new(List {
            dims: vec![1; 9].into(),
            keepdim: true,
        });
        let large = SavedAttributes::new(Large {
            a: [1, 2].into(),
            b: Ints::default(),
            dtype: Some(DType::F64),
            s: Scalar::Int(4),
        });
        let texts = [&small, &list, &large].map(|k| {
            let copy = k.clone();
            let text = display(copy.get()).to_string();
            assert_eq!(text, display(k.get()).to_string());
            text
        });
        assert_eq!(texts[0], "n=3, x=0.5");
        assert_eq!(texts[1], "dims=[1, 1, 1, 1, 1, 1, 1, 1, 1], keepdim=true");
        assert_eq!(texts[2], "a=[1, 2], b=[], dtype=float64, s=4");
        assert!(SavedAttributes::default().get().is_none());
        assert_eq!(display(NONE).to_string(), "");
        let wrong = small.get().expect::<List>().err().map(|e| e.to_string());
        let wrong = wrong.expect("another struct");
        assert!(
            wrong.contains("Small(n=3, x=0.5), the kernel reads List"),
            "{wrong}"
        );
    }

    #[test]
    fn structs_are_read_by_name() {
        for r in READERS {
            assert!((r.read)(&[]).is_err(), "{}", r.name);
        }
        let fields = [("keepdim", Field::Bool(true)), ("dims", Field::Ints(&[0]))];
        let list = super::super::read_from(&[READERS], "List", &fields).expect("its fields");
        assert_eq!(display(list.get()).to_string(), "dims=[0], keepdim=true");
        let bad = [("keepdim", Field::Int(1)), ("dims", Field::Ints(&[0]))];
        let text = super::super::read_from(&[READERS], "List", &bad)
            .unwrap_err()
            .to_string();
        assert!(text.contains("List.keepdim cannot be 1"), "{text}");
        assert!(read("NoSuchKernel", &[]).is_err());
        assert!(read("Nothing", &[]).expect("nothing").get().is_none());
    }
}
