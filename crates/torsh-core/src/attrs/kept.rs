//! Copies of attributes that outlive their call.

use std::fmt;
use std::mem::MaybeUninit;

use super::{Attributes, NONE, Nothing};

/// The words that small structs are kept in without memory of their own: room for a shape.
const WORDS: usize = 7;

type Room = MaybeUninit<[u64; WORDS]>;

/// A copy of a call's [`Attributes`], as the recorded graph has it. Structs of up to seven words
/// are in it, larger ones on the heap.
pub struct Kept {
    room: Room,
    table: &'static Table,
}

/// What can be done with a struct that is kept.
struct Table {
    /// # Safety
    /// The room holds the table's struct.
    get: unsafe fn(&Room) -> &dyn Attributes,
    /// # Safety
    /// As for `get`; the room is not used again.
    drop: Option<unsafe fn(&mut Room)>,
}

/// Whether a `T` is kept in the room itself.
const fn fits<T>() -> bool {
    size_of::<T>() <= size_of::<Room>() && align_of::<T>() <= align_of::<Room>()
}

/// # Safety
/// The room holds a `T`.
unsafe fn get<T: Attributes>(room: &Room) -> &dyn Attributes {
    // SAFETY: the caller's promise; a `T` fits, see `Kept::new`.
    unsafe { &*room.as_ptr().cast::<T>() }
}

/// # Safety
/// The room holds a `Box<T>`.
unsafe fn get_boxed<T: Attributes>(room: &Room) -> &dyn Attributes {
    // SAFETY: the caller's promise.
    unsafe { &**room.as_ptr().cast::<Box<T>>() }
}

/// # Safety
/// The room holds a `T`, which is not used again.
unsafe fn drop_in<T>(room: &mut Room) {
    // SAFETY: the caller's promise.
    unsafe { room.as_mut_ptr().cast::<T>().drop_in_place() }
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

impl Kept {
    /// What is kept of a call without attributes.
    pub const NOTHING: Kept = Kept {
        room: MaybeUninit::uninit(),
        table: &Tables::<Nothing>::PLAIN,
    };

    /// Keeps a struct.
    #[inline]
    pub fn new<T: Attributes>(attrs: T) -> Kept {
        let mut room = Room::uninit();
        if const { fits::<T>() } {
            // SAFETY: the room is large and aligned enough, and nobody else has it.
            unsafe { room.as_mut_ptr().cast::<T>().write(attrs) };
            Kept {
                room,
                table: &Tables::<T>::PLAIN,
            }
        } else {
            // SAFETY: a box is one word.
            unsafe { room.as_mut_ptr().cast::<Box<T>>().write(Box::new(attrs)) };
            Kept {
                room,
                table: &Tables::<T>::BOXED,
            }
        }
    }

    /// The attributes.
    #[inline]
    pub fn get(&self) -> &dyn Attributes {
        // SAFETY: room and table were made together, in `new` or `NOTHING` (whose struct has no
        // bytes).
        unsafe { (self.table.get)(&self.room) }
    }
}

impl Drop for Kept {
    #[inline]
    fn drop(&mut self) {
        if let Some(drop) = self.table.drop {
            // SAFETY: as in `get`; nothing follows.
            unsafe { drop(&mut self.room) }
        }
    }
}

// SAFETY: the struct inside is `Send`, as `Attributes` asks.
unsafe impl Send for Kept {}
// SAFETY: the struct inside is `Sync`, as `Attributes` asks.
unsafe impl Sync for Kept {}

impl Clone for Kept {
    fn clone(&self) -> Kept {
        self.get().keep()
    }
}

impl Default for Kept {
    fn default() -> Kept {
        NONE.keep()
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use crate::attrs::{Field, Ints, Kept, NONE, display, read};
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
        let small = Kept::new(Small { n: 3, x: 0.5 });
        let list = Kept::new(List {
            dims: vec![1; 9].into(),
            keepdim: true,
        });
        let large = Kept::new(Large {
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
        assert!(Kept::default().get().is_none());
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
