//! Observers: who is told what, and in which order.

use std::cell::RefCell;
use std::rc::Rc;

use torsh_tensor::observe::{Call, Observer, Work, observe, range, watch};
use torsh_tensor::{Tensor, tensor};

#[derive(Default)]
struct Journal(RefCell<Vec<String>>);

fn name(call: &Call<'_>) -> String {
    match call.work {
        Work::Op(r) => r.base_name().to_string(),
        Work::InPlace(r) => format!("{} in place", r.base_name()),
        Work::Composite(n) | Work::Range(n) => n.to_string(),
        Work::Node(n) => format!("node {}", n.name()),
        Work::Formula(n) => format!("formula {}", n.name()),
        Work::Fallback(r) => format!("{} on the CPU", r.base_name()),
        Work::Definition(r) => format!("definition of {}", r.base_name()),
    }
}

impl Observer for Journal {
    fn begin(&self, call: &Call<'_>) {
        // What an observer computes is told to nobody.
        assert_eq!(tensor![1.0].add(1.0).unwrap(), tensor![2.0]);
        let entry = format!("{}{}", "  ".repeat(call.depth), name(call));
        self.0.borrow_mut().push(entry);
    }

    fn end(&self, call: &Call<'_>, outputs: Option<&[Tensor]>) {
        let what = outputs.map_or("failed".to_string(), |o| o.len().to_string());
        let entry = format!("{}/{} {what}", "  ".repeat(call.depth), name(call));
        self.0.borrow_mut().push(entry);
    }

    fn made(&self, t: &Tensor) {
        self.0.borrow_mut().push(format!("made {}", t.shape()));
    }
}

fn journal(f: impl FnOnce() -> torsh_tensor::Result<()>) -> Vec<String> {
    let journal = Rc::new(Journal::default());
    let guard = watch(journal.clone());
    f().unwrap();
    drop(guard);
    journal.0.take()
}

#[test]
fn ops_ranges_and_failures() {
    let (x, other) = (tensor![1.0, 2.0], tensor![1.0, 2.0, 3.0]);
    let seen = journal(|| {
        range("outer", || {
            x.exp()?;
            x.t()?;
            assert!(x.add(&other).is_err());
            x.mul_(2.0)
        })
        .map(|_| ())
    });
    let expected = [
        "outer",
        "  exp",
        "made [2]",
        "  /exp 1",
        "  add",
        "  /add failed",
        "  mul in place",
        "  /mul in place 1",
        "/outer 0",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn backward_node_by_node() {
    let x = tensor![1.0, 2.0].requires_grad_(true);
    let y = x.mul(3.0).unwrap().sum().unwrap();
    let seen = journal(|| y.backward());
    let begins: Vec<&str> = (seen.iter().map(String::as_str))
        .filter(|s| s.contains("node") || s.contains("formula"))
        .collect();
    let expected = [
        "node SumBackward0",
        "  formula SumBackward0",
        "  /formula SumBackward0 0",
        "/node SumBackward0 0",
        "node MulBackward0",
        "  formula MulBackward0",
        "  /formula MulBackward0 0",
        "/node MulBackward0 0",
        "node AccumulateGrad",
        "  formula AccumulateGrad",
        "  /formula AccumulateGrad 0",
        "/node AccumulateGrad 0",
    ];
    assert_eq!(begins, expected);
    assert_eq!(x.grad().unwrap(), tensor![3.0, 3.0]);
}

#[test]
fn several_observers_come_and_go() {
    let x = tensor![1.0];
    let (first, second) = (Rc::new(Journal::default()), Rc::new(Journal::default()));
    let a = watch(first.clone());
    let b = watch(second.clone());
    x.exp().unwrap();
    drop(a);
    x.sin().unwrap();
    drop(b);
    x.cos().unwrap();
    let begins = |j: &Journal| -> Vec<String> {
        let all = j.0.borrow();
        let ops = all.iter().filter(|s| !s.starts_with(['/', 'm']));
        ops.cloned().collect()
    };
    assert_eq!(begins(&first), ["exp"]);
    assert_eq!(begins(&second), ["exp", "sin"]);
}

#[test]
fn a_range_ends_when_its_closure_panics() {
    let journal = Rc::new(Journal::default());
    let guard = watch(journal.clone());
    let caught = std::panic::catch_unwind(|| range::<()>("bad", || panic!("no")));
    assert!(caught.is_err());
    range("good", || Ok(())).unwrap();
    drop(guard);
    let expected = ["bad", "/bad failed", "good", "/good 0"];
    assert_eq!(*journal.0.borrow(), expected);
}

#[test]
fn threads_are_not_told_of_one_another() {
    let x = tensor![1.0];
    let seen = Rc::new(RefCell::new(Vec::new()));
    let names = seen.clone();
    observe(
        move |e| names.borrow_mut().push(e.record.base_name()),
        || {
            std::thread::scope(|s| {
                s.spawn(|| tensor![1.0].exp().unwrap());
            });
            x.sin()
        },
    )
    .unwrap();
    assert_eq!(*seen.borrow(), ["sin"]);
}
