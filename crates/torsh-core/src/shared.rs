//! Reference counting for objects that live as long as one op.
//!
//! [`Shared`] replaces [`std::sync::Arc`] for objects that every op creates and drops. Its memory comes
//! from free lists of the thread. Both of its counts are in one word, so dropping the only handle
//! changes no counter.

use std::alloc::Layout;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

use crate::alloc::objects;

/// One handle in the lower half of the counts, one weak handle in the upper half. All handles
/// together hold one weak handle.
const HANDLE: u64 = 1;
const WEAK: u64 = 1 << 32;
const UNIQUE: u64 = WEAK | HANDLE;

/// More handles than this are a leak in a loop, which must not overflow a count.
const MOST: u32 = i32::MAX as u32;

struct Counted<T> {
    counts: AtomicU64,
    value: T,
}

/// A handle of a value on the heap, which is dropped with its last handle. A clone is another handle.
///
/// ```
/// use torsh_core::Shared;
/// let a = Shared::new(vec![1, 2, 3]);
/// let b = a.clone();
/// assert!(Shared::ptr_eq(&a, &b));
/// assert_eq!((b.len(), Shared::strong_count(&a)), (3, 2)); // Methods of the value work.
/// ```
pub struct Shared<T>(NonNull<Counted<T>>);

/// A handle that keeps the memory but not the value.
///
/// ```
/// use torsh_core::Shared;
/// let strong = Shared::new(7);
/// let weak = Shared::downgrade(&strong);
/// assert_eq!((weak.strong_count(), weak.upgrade().map(|value| *value)), (1, Some(7)));
/// drop(strong);
/// assert_eq!(weak.strong_count(), 0);
/// ```
pub struct WeakShared<T>(NonNull<Counted<T>>);

// SAFETY: as for `Arc`: handles give shared access from any thread, and the last one drops the
// value wherever it is.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for WeakShared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for WeakShared<T> {}

impl<T> Shared<T> {
    /// Returns the first handle of a value.
    ///
    /// ```
    /// use torsh_core::Shared;
    /// assert_eq!(*Shared::new(7), 7);
    /// ```
    #[inline]
    pub fn new(value: T) -> Shared<T> {
        Shared::with(|| value)
    }

    /// As [`Shared::new`]; the value is made where it stays. If `value` panics, that place is lost.
    #[doc(hidden)]
    #[inline(always)]
    pub fn with(value: impl FnOnce() -> T) -> Shared<T> {
        let ptr = objects::allocate(Layout::new::<Counted<T>>()).cast::<Counted<T>>();
        // SAFETY: the memory is fresh, and of the layout of what is written.
        unsafe {
            ptr.write(Counted {
                counts: AtomicU64::new(UNIQUE),
                value: value(),
            });
        }
        Shared(ptr)
    }

    #[inline]
    fn counted(&self) -> &Counted<T> {
        // SAFETY: the value lives as long as this handle.
        unsafe { self.0.as_ref() }
    }

    /// Whether two handles are of the same value.
    ///
    /// ```
    /// use torsh_core::Shared;
    /// let a = Shared::new(7);
    /// assert!(Shared::ptr_eq(&a, &a.clone()) && !Shared::ptr_eq(&a, &Shared::new(7)));
    /// ```
    #[inline]
    pub fn ptr_eq(a: &Shared<T>, b: &Shared<T>) -> bool {
        a.0 == b.0
    }

    /// The value's address, the same for all handles.
    #[inline]
    pub fn as_ptr(this: &Shared<T>) -> *const T {
        &this.counted().value
    }

    /// Returns how many handles there are, weak ones not counted.
    ///
    /// ```
    /// use torsh_core::Shared;
    /// let a = Shared::new(7);
    /// let _weak = Shared::downgrade(&a);
    /// assert_eq!(Shared::strong_count(&a), 1);
    /// ```
    #[inline]
    pub fn strong_count(this: &Shared<T>) -> usize {
        this.counted().counts.load(Ordering::Acquire) as u32 as usize
    }

    /// Whether there is no other handle, weak ones included: only its holder can then make one.
    ///
    /// ```
    /// use torsh_core::Shared;
    /// let a = Shared::new(7);
    /// assert!(Shared::is_unique(&a));
    /// let _weak = Shared::downgrade(&a);
    /// assert!(!Shared::is_unique(&a));
    /// ```
    #[inline]
    pub fn is_unique(this: &Shared<T>) -> bool {
        this.counted().counts.load(Ordering::Acquire) == UNIQUE
    }

    /// Returns the value, where there is no other handle.
    ///
    /// ```
    /// use torsh_core::Shared;
    /// let mut a = Shared::new(7);
    /// *Shared::get_mut(&mut a).expect("the only handle") += 1;
    /// let b = a.clone();
    /// assert!(Shared::get_mut(&mut a).is_none());
    /// assert_eq!(*b, 8);
    /// ```
    #[inline]
    pub fn get_mut(this: &mut Shared<T>) -> Option<&mut T> {
        if !Shared::is_unique(this) {
            return None;
        }
        // SAFETY: nobody else has a handle, nor can make one while this one is borrowed.
        Some(unsafe { &mut (*this.0.as_ptr()).value })
    }

    /// A handle that does not keep the value.
    pub fn downgrade(this: &Shared<T>) -> WeakShared<T> {
        let before = this.counted().counts.fetch_add(WEAK, Ordering::Relaxed);
        if (before >> 32) as u32 > MOST {
            std::process::abort();
        }
        WeakShared(this.0)
    }

    /// Drops a handle; if it is the last, `last` gets the value before that is dropped, where it
    /// is. Unlike [`Shared::get_mut`] this does not miss the end while weak handles are about.
    #[doc(hidden)]
    pub fn drop_with(this: Shared<T>, last: impl FnOnce(&mut T)) {
        let this = std::mem::ManuallyDrop::new(this);
        if !this.let_go() {
            return;
        }
        // SAFETY: the last handle is gone, so nobody else reaches the value or will. (A panic in
        // `last` loses it.)
        unsafe {
            let value = &raw mut (*this.0.as_ptr()).value;
            last(&mut *value);
            value.drop_in_place();
            release_weak(this.0);
        }
    }

    /// Counts this handle down; whether it was the last, with what the others did visible here.
    #[inline]
    fn let_go(&self) -> bool {
        let counts = &self.counted().counts;
        // The only handle, and no weak one: nobody is left who could count.
        if counts.load(Ordering::Acquire) == UNIQUE {
            return true;
        }
        if counts.fetch_sub(HANDLE, Ordering::Release) as u32 != 1 {
            return false;
        }
        fence(Ordering::Acquire);
        true
    }
}

/// Gives up the weak handle that all handles held together.
///
/// # Safety
/// There is no handle any more, and the value is dropped.
#[inline]
unsafe fn release_weak<T>(ptr: NonNull<Counted<T>>) {
    // SAFETY: the memory is there as long as the weak handle is.
    let counts = unsafe { &ptr.as_ref().counts };
    let before = counts.load(Ordering::Acquire);
    // Alone, the last handle was not even counted down.
    if before >> 32 != 1 {
        if counts.fetch_sub(WEAK, Ordering::Release) >> 32 != 1 {
            return;
        }
        fence(Ordering::Acquire);
    }
    // SAFETY: nobody has the memory any more, and it came from `Shared::with`.
    unsafe { objects::free(ptr.cast(), Layout::new::<Counted<T>>()) }
}

impl<T> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Shared<T> {
        let before = self.counted().counts.fetch_add(HANDLE, Ordering::Relaxed);
        if before as u32 > MOST {
            std::process::abort();
        }
        Shared(self.0)
    }
}

impl<T> Drop for Shared<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.let_go() {
            // SAFETY: this was the last handle, so nobody else reaches the value or will.
            unsafe { free(self.0) }
        }
    }
}

/// Drops the value of the last handle.
///
/// # Safety
/// Nobody reaches the value any more.
#[inline(never)]
unsafe fn free<T>(counted: NonNull<Counted<T>>) {
    // SAFETY: the caller's promise.
    unsafe {
        (&raw mut (*counted.as_ptr()).value).drop_in_place();
        release_weak(counted);
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T> AsRef<T> for Shared<T> {
    #[inline]
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T> WeakShared<T> {
    #[inline]
    fn counts(&self) -> &AtomicU64 {
        // SAFETY: the memory is there as long as this handle; only the counts are looked at, of
        // which no exclusive reference is ever made.
        unsafe { &(*self.0.as_ptr()).counts }
    }

    /// Returns a handle of the value, if there is one still.
    ///
    /// ```
    /// use torsh_core::Shared;
    /// let strong = Shared::new(7);
    /// let weak = Shared::downgrade(&strong);
    /// assert_eq!(weak.upgrade().map(|value| *value), Some(7));
    /// drop(strong);
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn upgrade(&self) -> Option<Shared<T>> {
        let counts = self.counts();
        let mut now = counts.load(Ordering::Relaxed);
        loop {
            match now as u32 {
                0 => return None,
                n if n > MOST => std::process::abort(),
                _ => {}
            }
            match counts.compare_exchange_weak(
                now,
                now + HANDLE,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(Shared(self.0)),
                Err(other) => now = other,
            }
        }
    }

    /// How many handles keep the value.
    pub fn strong_count(&self) -> usize {
        self.counts().load(Ordering::Acquire) as u32 as usize
    }

    /// The value's address, to be compared only.
    pub fn as_ptr(&self) -> *const T {
        // SAFETY: the memory is there; no reference to the value is made.
        unsafe { &raw const (*self.0.as_ptr()).value }
    }
}

impl<T> Clone for WeakShared<T> {
    fn clone(&self) -> WeakShared<T> {
        let before = self.counts().fetch_add(WEAK, Ordering::Relaxed);
        if (before >> 32) as u32 > MOST {
            std::process::abort();
        }
        WeakShared(self.0)
    }
}

impl<T> Drop for WeakShared<T> {
    fn drop(&mut self) {
        if self.counts().fetch_sub(WEAK, Ordering::Release) >> 32 == 1 {
            fence(Ordering::Acquire);
            // SAFETY: this was the last handle of any kind; the value is dropped already.
            unsafe { objects::free(self.0.cast(), Layout::new::<Counted<T>>()) }
        }
    }
}

impl<T> fmt::Debug for WeakShared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(WeakShared)")
    }
}

/// A place for a value that is made later, once, if at all: a word while there is none.
#[doc(hidden)]
pub struct OnceBox<T>(AtomicPtr<T>, std::marker::PhantomData<T>);

impl<T> OnceBox<T> {
    /// An empty place.
    #[inline]
    pub const fn new() -> OnceBox<T> {
        OnceBox(
            AtomicPtr::new(std::ptr::null_mut()),
            std::marker::PhantomData,
        )
    }

    /// A place with a value in it.
    #[inline(always)]
    pub fn with(value: impl FnOnce() -> T) -> OnceBox<T> {
        OnceBox(
            AtomicPtr::new(boxed(value).as_ptr()),
            std::marker::PhantomData,
        )
    }

    /// The value, where there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: what was put there stays until `self` is dropped, and is only shared.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The value, made now if there is none. Of several threads that make one, one wins.
    #[inline]
    pub fn get_or_init(&self, value: impl FnOnce() -> T) -> &T {
        if let Some(have) = self.get() {
            return have;
        }
        let new = boxed(value);
        let put = self.0.compare_exchange(
            std::ptr::null_mut(),
            new.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match put {
            // SAFETY: put there just now, and as in `get`.
            Ok(_) => unsafe { new.as_ref() },
            Err(first) => {
                // SAFETY: `new` was never shared; `first` is another thread's, as in `get`.
                unsafe {
                    unbox(new);
                    &*first
                }
            }
        }
    }
}

#[inline(always)]
fn boxed<T>(value: impl FnOnce() -> T) -> NonNull<T> {
    let ptr = objects::allocate(Layout::new::<T>()).cast::<T>();
    // SAFETY: the memory is fresh, and of the layout of what is written.
    unsafe { ptr.write(value()) };
    ptr
}

/// # Safety
/// `ptr` came from [`boxed`] and nobody else uses it.
#[inline(always)]
unsafe fn unbox<T>(ptr: NonNull<T>) {
    // SAFETY: the caller's promise.
    unsafe {
        ptr.drop_in_place();
        objects::free(ptr.cast(), Layout::new::<T>());
    }
}

impl<T> Default for OnceBox<T> {
    fn default() -> OnceBox<T> {
        OnceBox::new()
    }
}

impl<T> Drop for OnceBox<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(ptr) = NonNull::new(*self.0.get_mut()) {
            // SAFETY: the value is this place's own.
            unsafe { unbox(ptr) }
        }
    }
}

#[cfg(test)]
#[path = "shared_tests.rs"]
mod tests;
