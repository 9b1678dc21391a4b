use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;

/// Counts its drops.
struct Dropped<'a>(&'a AtomicUsize);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_last_handle_drops_the_value() {
    let drops = AtomicUsize::new(0);
    let a = Shared::new(Dropped(&drops));
    let mut b = a.clone();
    assert!(Shared::ptr_eq(&a, &b) && !Shared::is_unique(&a));
    assert_eq!(Shared::strong_count(&a), 2);
    assert!(Shared::get_mut(&mut b).is_none());
    drop(a);
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    assert!(Shared::is_unique(&b) && Shared::get_mut(&mut b).is_some());
    drop(b);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

#[test]
fn weak_handles_do_not_keep_the_value() {
    let drops = AtomicUsize::new(0);
    let a = Shared::new(Dropped(&drops));
    let weak = Shared::downgrade(&a);
    assert!(!Shared::is_unique(&a) && std::ptr::eq(weak.as_ptr(), Shared::as_ptr(&a)));
    let b = weak.upgrade().expect("alive");
    drop(a);
    assert_eq!((drops.load(Ordering::Relaxed), weak.strong_count()), (0, 1));
    drop(b);
    assert_eq!((drops.load(Ordering::Relaxed), weak.strong_count()), (1, 0));
    let other = weak.clone();
    drop(weak);
    assert!(other.upgrade().is_none());
}

#[test]
fn only_the_last_handle_shows_the_value() {
    let drops = AtomicUsize::new(0);
    let a = Shared::new(Dropped(&drops));
    let (b, weak) = (a.clone(), Shared::downgrade(&a));
    Shared::drop_with(a, |_| panic!("there is another handle"));
    let mut seen = false;
    Shared::drop_with(b, |d| {
        seen = d.0.load(Ordering::Relaxed) == 0;
    });
    assert!(seen && weak.upgrade().is_none());
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

#[test]
fn values_of_no_size_and_of_many_bytes() {
    assert_eq!(*Shared::new(()), ());
    let large = Shared::with(|| [7u8; 3000]);
    assert!(large.iter().all(|&b| b == 7));
}

#[test]
fn threads_share_and_drop() {
    let drops = AtomicUsize::new(0);
    let rounds = if cfg!(miri) { 20 } else { 2000 };
    for _ in 0..rounds {
        let a = Shared::new(Dropped(&drops));
        let weak = Shared::downgrade(&a);
        thread::scope(|s| {
            let b = a.clone();
            s.spawn(move || drop(b.clone()));
            s.spawn(move || drop(weak.upgrade()));
            s.spawn(move || drop(Shared::downgrade(&a)));
        });
    }
    assert_eq!(drops.load(Ordering::Relaxed), rounds);
}

#[test]
fn a_place_takes_one_value() {
    let place = OnceBox::new();
    assert_eq!(place.get(), None::<&String>);
    assert_eq!(place.get_or_init(|| "a".into()), "a");
    assert_eq!(place.get_or_init(|| "b".into()), "a");
    assert_eq!(OnceBox::with(|| 3).get(), Some(&3));
    let place = OnceBox::new();
    thread::scope(|s| {
        for k in 0..2 {
            let place = &place;
            s.spawn(move || assert!(*place.get_or_init(|| k) < 2));
        }
    });
    assert!(place.get().is_some_and(|&k| k < 2));
}
