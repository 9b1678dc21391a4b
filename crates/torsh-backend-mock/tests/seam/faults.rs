//! Failures of a device: no memory, copies that fail, errors that come later, a lost device.
//!
//! Each test has the devices to itself, and a watchdog that ends it where it hangs.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use torsh_backend_mock::{Injection, Mock, mock};
use torsh_core::Kernel;
use torsh_core::backend::{Backend, QueueId};
use torsh_optim::{
    ASGD, Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, NAdam, Optimizer, ParamGroup, RAdam,
    RMSprop, Rprop, SGD,
};
use torsh_tensor::devices::{Fallback, fallbacks, set_fallback, set_sync_checks, synchronize};
use torsh_tensor::{DType, Device, Result, SortOptions, Tensor, tensor};

use crate::alone;

/// How long a test may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The two devices.
struct Devices {
    first: Device,
    second: Device,
    mock: &'static Mock,
}

/// Runs a test alone on the devices, which are as new before and after it.
fn faulty(test: impl FnOnce(&Devices) -> Result<()> + Send + 'static) {
    let (first, _, _alone) = alone();
    let all = [0, 1].map(|i| mock(i).expect("a mock device"));
    let devices = Devices {
        first,
        second: Device::Custom(1),
        mock: all[0],
    };
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = ended.send(catch_unwind(AssertUnwindSafe(|| test(&devices))));
    });
    let end = end.recv_timeout(TIMEOUT);
    if end.is_ok() {
        all.iter().for_each(|m| m.restore());
        set_sync_checks(false);
        set_fallback(Fallback::Refuse);
    }
    match end {
        Err(_) => panic!("the test hangs"),
        Ok(Err(panic)) => resume_unwind(panic),
        Ok(Ok(Err(e))) => panic!("{e}"),
        Ok(Ok(Ok(()))) => {}
    }
}

/// The text of an error, which says all of `parts`.
#[track_caller]
fn says<T>(result: Result<T>, parts: &[&str]) -> String {
    let text = match result {
        Ok(_) => panic!("no error, where one must say {parts:?}"),
        Err(e) => e.to_string(),
    };
    contains(&text, parts);
    text
}

#[track_caller]
fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}

const LOST: &[&str] = &["mock:0", "lost"];
const NO_COPY: &[&str] = &["a copy to or from mock:"];

// ---- No memory ----

/// Lets each allocation of `run` fail in turn, until none is left to fail; `after` looks at what an
/// error left behind. Returns what `run` gave in the end, and how many allocations it made.
fn each_allocation<T>(
    mock: &Mock,
    run: &dyn Fn() -> Result<T>,
    after: &dyn Fn(usize) -> Result<()>,
) -> Result<(T, usize)> {
    each_allocation_of(mock, &|| Ok(()), &|()| run(), after)
}

/// [`each_allocation`], where `prepare` comes before each try and has its memory.
fn each_allocation_of<P, T>(
    mock: &Mock,
    prepare: &dyn Fn() -> Result<P>,
    run: &dyn Fn(P) -> Result<T>,
    after: &dyn Fn(usize) -> Result<()>,
) -> Result<(T, usize)> {
    for n in 0..10_000 {
        let prepared = prepare()?;
        mock.inject(Injection::OutOfMemoryAfter(n));
        let result = run(prepared);
        let armed = mock.is_armed();
        mock.inject(Injection::OutOfMemory(0));
        if armed {
            return Ok((result?, n));
        }
        // after the errors name their op
        says(result, &["out of memory"]);
        after(n)?;
    }
    panic!("an end of the allocations was not found")
}

#[test]
fn a_creation_without_memory_is_an_error_and_can_be_tried_again() {
    faulty(|d| {
        let device = d.first;
        let host = tensor![1.0, 2.0];
        let creations: [&dyn Fn() -> Result<Tensor>; 5] = [
            &|| Tensor::zeros([3], DType::F32, device),
            &|| Tensor::empty([3], DType::I64, device),
            &|| Tensor::arange(0, 5, 1, DType::F32, device),
            &|| Tensor::randn([3], DType::F32, device),
            &|| host.to_device(device),
        ];
        for create in creations {
            d.mock.inject(Injection::OutOfMemory(1));
            // after the errors name their op: and "mock:0"
            says(create(), &["out of memory"]);
            create()?.to_vec::<f32>()?;
        }
        Ok(())
    });
}

#[test]
fn an_op_without_memory_leaves_its_operands_as_they_were() {
    faulty(|d| {
        let x = tensor![[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]];
        let there = x.to_device(d.first)?;
        type Op = fn(&Tensor) -> Result<Tensor>;
        // Kernels of the device, compositions, definitions in other ops (`addcmul`, `hardswish`),
        // and ops that write in place.
        let ops: [(&str, Op); 8] = [
            ("add", |x| x.add(1.0)),
            ("softmax", |x| x.softmax(1)),
            ("std", |x| x.std_dim(1, false)),
            ("matmul", |x| x.matmul(&x.t()?)),
            ("addcmul", |x| x.addcmul(x, x)),
            ("hardswish", Tensor::hardswish),
            ("sort", |x| Ok(x.sort()?.0)),
            ("cumsum", |x| x.t()?.contiguous()?.cumsum(0)),
        ];
        for (name, op) in ops {
            synchronize(d.first)?;
            let before = d.mock.memory_stats().allocated_bytes;
            let (y, made) = each_allocation(d.mock, &|| op(&there), &|n| {
                synchronize(d.first)?;
                let left = d.mock.memory_stats().allocated_bytes;
                assert_eq!(left, before, "{name} keeps memory after failure {n}");
                assert_eq!(there.cpu()?, x, "{name} changed its operand");
                Ok(())
            })?;
            assert!(made > 0, "{name} allocates");
            let (y, want) = (y.cpu()?, op(&x)?);
            assert!(y.allclose(&want)?, "{name}: {y} is not {want}");
        }
        // An op in place whose temporary results do not fit leaves its target.
        let target = there.copy()?;
        let (_, made) = each_allocation(d.mock, &|| target.addcmul_(&there, &there), &|_| {
            assert_eq!(target.cpu()?, x, "addcmul_ changed its target");
            Ok(())
        })?;
        assert!(made > 0);
        assert_eq!(target.cpu()?, x.addcmul(&x, &x)?);
        Ok(())
    });
}

#[test]
fn backward_without_memory_changes_no_parameter_and_can_be_tried_again() {
    faulty(|d| {
        let forward = |w: &Tensor, b: &Tensor, x: &Tensor| -> Result<Tensor> {
            x.matmul(w)?.add(b)?.hardswish()?.softmax(1)?.mul(x)?.sum()
        };
        let x = tensor![[1.0, -2.0], [0.5, 3.0]];
        let w = tensor![[0.3, -0.1], [0.7, 0.2]];
        let b = tensor![0.1, -0.4];
        let at = |t: &Tensor| -> Result<Tensor> {
            Ok(t.to_device(d.first)?.detach().requires_grad_(true))
        };
        let (wd, bd, xd) = (at(&w)?, at(&b)?, x.to_device(d.first)?);
        let (wh, bh) = (
            w.copy()?.requires_grad_(true),
            b.copy()?.requires_grad_(true),
        );
        forward(&wh, &bh, &x)?.backward()?;
        let (_, made) = each_allocation_of(
            d.mock,
            &|| forward(&wd, &bd, &xd),
            &|loss| loss.backward(),
            &|_| {
                // Leaves have whole gradients or none.
                for (there, here) in [(&wd, &wh), (&bd, &bh)] {
                    if let Some(g) = there.grad() {
                        let want = here.grad().expect("a gradient");
                        assert!(g.cpu()?.allclose(&want)?, "{g} is not {want}");
                    }
                    there.set_grad(None)?;
                }
                assert_eq!(wd.cpu()?.detach(), w);
                assert_eq!(bd.cpu()?.detach(), b);
                Ok(())
            },
        )?;
        assert!(made > 3, "backward allocates, {made}");
        for (there, here) in [(&wd, &wh), (&bd, &bh)] {
            let there = there.grad().expect("a gradient").cpu()?;
            assert!(there.allclose(&here.grad().expect("a gradient"))?);
        }
        Ok(())
    });
}

#[test]
fn an_optimizer_step_without_memory_changes_no_parameter_and_can_be_tried_again() {
    faulty(|d| {
        type Build = fn(&[Tensor]) -> Result<Box<dyn Optimizer>>;
        macro_rules! built {
            ($(($name:literal, $type:ident $(. $set:ident($v:expr))*)),* $(,)?) => {
                [$(($name, (|p: &[Tensor]| {
                    Ok(Box::new($type::builder([ParamGroup::new(p)]) $(.$set($v))* .build()?) as Box<dyn Optimizer>)
                }) as Build)),*]
            };
        }
        let optimizers = built![
            ("SGD", SGD.lr(0.1).momentum(0.9)),
            ("Adam", Adam.amsgrad(true)),
            ("AdamW", AdamW),
            ("Adamax", Adamax),
            ("NAdam", NAdam),
            ("RAdam", RAdam),
            ("RMSprop", RMSprop.momentum(0.9)),
            ("Adagrad", Adagrad),
            ("Adadelta", Adadelta),
            ("Adafactor", Adafactor),
            ("ASGD", ASGD),
            ("Rprop", Rprop),
        ];
        let values = [tensor![[1.0, 2.0], [3.0, 4.0]], tensor![0.5, -0.5]];
        let grads = [tensor![[0.1, -0.2], [0.3, -0.4]], tensor![1.0, -1.0]];
        let parameters = |device: Device| -> Result<Vec<Tensor>> {
            let one = |(v, g): (&Tensor, &Tensor)| {
                let p =
                    v.to_device_with(device, torsh_tensor::ToDeviceOptions::new().copy(true))?;
                let p = p.detach().requires_grad_(true);
                p.set_grad(Some(g.to_device(device)?))?;
                Ok(p)
            };
            values.iter().zip(&grads).map(one).collect()
        };
        for (name, build) in optimizers {
            let (there, here) = (parameters(d.first)?, parameters(Device::Cpu)?);
            let (on_device, on_cpu) = (build(&there)?, build(&here)?);
            for step in 0..3 {
                let before = there
                    .iter()
                    .map(|p| p.detach().cpu())
                    .collect::<Result<Vec<_>>>()?;
                each_allocation(d.mock, &|| on_device.step(), &|n| {
                    for (p, b) in there.iter().zip(&before) {
                        let now = p.detach().cpu()?;
                        assert_eq!(&now, b, "{name}, step {step}, failure {n}");
                    }
                    Ok(())
                })?;
                on_cpu.step()?;
                for (p, q) in there.iter().zip(&here) {
                    let (p, q) = (p.detach().cpu()?, q.detach());
                    assert!(p.allclose(&q)?, "{name}, step {step}: {p} is not {q}");
                }
            }
        }
        Ok(())
    });
}

// ---- Copies that fail ----

/// Runs something while the next copy to or from a device fails.
fn failing<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    let all = [0, 1].map(|i| mock(i).expect("a mock device"));
    all.iter()
        .for_each(|m| m.inject(Injection::FailingCopies(1)));
    let result = run();
    all.iter()
        .for_each(|m| m.inject(Injection::FailingCopies(0)));
    result
}

#[test]
fn a_copy_that_fails_is_named_and_can_be_tried_again() {
    faulty(|d| {
        let host = tensor![1.0, 2.0];
        let there = host.to_device(d.first)?;
        let other = tensor![3.0, 4.0].to_device(d.second)?;
        let one = there.sum()?;

        let text = says(failing(|| host.to_device(d.first)), NO_COPY);
        contains(&text, &["to_device", "float32[2] cpu"]);
        assert_eq!(host.to_device(d.first)?.cpu()?, host);
        let text = says(failing(|| there.cpu()), NO_COPY);
        contains(&text, &["to_device", "float32[2] mock:0"]);
        assert_eq!(there.cpu()?, host);
        let text = says(failing(|| there.to_device(d.second)), NO_COPY);
        contains(&text, &["to_device"]);
        assert_eq!(there.to_device(d.second)?.cpu()?, host);
        says(failing(|| there.to_vec::<f32>()), NO_COPY);
        assert_eq!(there.to_vec::<f32>()?, [1.0, 2.0]);
        says(failing(|| there.to_bytes()), NO_COPY);
        says(failing(|| one.item::<f32>()), NO_COPY);
        assert_eq!(one.item::<f32>()?, 3.0);
        let text = failing(|| Ok(there.to_string()))?;
        contains(&text, &[NO_COPY[0], "float32[2] mock:0"]);
        contains(&there.to_string(), &["[1., 2.]", "device='mock:0'"]);
        let same = there.add(0.0)?;
        says(failing(|| there.equal(&same)), NO_COPY);

        // A target that could not be written is as it was.
        for source in [&host.add(10.0)?, &other] {
            let target = there.copy()?;
            let text = says(failing(|| target.copy_(source)), NO_COPY);
            contains(&text, &["copy_"]);
            assert_eq!(target.cpu()?, host);
            let want = source.to_vec::<f32>()?;
            assert_eq!(target.copy_(source)?.to_vec::<f32>()?, want);
        }
        let target = tensor![7.0, 8.0];
        let text = says(failing(|| target.copy_(&there)), NO_COPY);
        contains(&text, &["copy_"]);
        assert_eq!(target, tensor![7.0, 8.0]);
        assert_eq!(target.copy_(&there)?, host);

        // A gradient that could not be moved back.
        let x = tensor![1.0, 2.0].requires_grad_(true);
        let y = x.to_device(d.first)?.sum()?;
        says(failing(|| y.backward()), NO_COPY);
        assert!(x.grad().is_none());
        x.to_device(d.first)?.sum()?.backward()?;
        assert_eq!(x.grad().expect("a gradient"), tensor![1.0, 1.0]);
        Ok(())
    });
}

// ---- A lost device ----

#[test]
fn a_lost_device_says_so_and_others_go_on() {
    faulty(|d| {
        let x = tensor![1.0, 2.0];
        let there = x.to_device(d.first)?;
        let w = there.copy()?.requires_grad_(true);
        w.mul(&there)?.sum()?.backward()?;
        let loss = w.mul(&there)?.sum()?;
        let backend = torsh_backend::backend(d.first)?;
        let event = backend.record_event()?;
        let optimizer = SGD::new([&w], 0.1)?;
        let held = there.add(1.0)?;
        d.mock.inject(Injection::Lost);

        for _ in 0..2 {
            says(there.add(1.0), LOST);
            says(there.add_(1.0), LOST);
            says(there.hardswish(), LOST);
            says(there.sort(), LOST);
            says(Tensor::zeros([2], DType::F32, d.first), LOST);
            says(Tensor::rand([2], DType::F32, d.first), LOST);
            says(x.to_device(d.first), LOST);
            says(x.to_device(d.second)?.to_device(d.first), LOST);
            says(there.cpu(), LOST);
            says(there.to_device(d.second), LOST);
            says(there.to_vec::<f32>(), LOST);
            says(there.sum().and_then(|s| s.item::<f32>()), LOST);
            says(held.to_vec::<f32>(), LOST);
            says(there.equal(&held), LOST);
            says(there.copy_(&x), LOST);
            says(x.copy_(&there), LOST);
            says(there.fill_(0.0), LOST);
            says(there.zero_(), LOST);
            says(loss.backward_with(None, true, false), LOST);
            says(optimizer.step(), LOST);
            contains(&there.to_string(), LOST);
            says(synchronize(d.first), LOST);
            says(event.wait(), LOST);
            says(backend.record_event().map(drop), LOST);
            says(backend.new_queue(0), LOST);
        }
        let same = catch_unwind(AssertUnwindSafe(|| there == held));
        contains(&panic_text(same), LOST);

        // The CPU and the other device.
        assert_eq!(x.add(1.0)?, tensor![2.0, 3.0]);
        let second = x.to_device(d.second)?;
        assert_eq!(second.mul(&second)?.to_vec::<f32>()?, [1.0, 4.0]);
        synchronize(d.second)?;

        // What is on the device can be dropped, also what is recorded.
        drop((there, w, loss, held, optimizer));

        d.mock.restore();
        synchronize(d.first)?;
        let again = x.to_device(d.first)?.requires_grad_(true);
        again.mul(&again)?.sum()?.backward()?;
        assert_eq!(
            again.grad().expect("a gradient").to_vec::<f32>()?,
            [2.0, 4.0]
        );
        Ok(())
    });
}

#[test]
fn a_device_that_is_lost_while_somebody_waits_ends_the_wait() {
    faulty(|d| {
        let device = d.first;
        for wait in 0..3 {
            let x = Tensor::rand([128, 128], DType::F32, device)?;
            let waiting = std::thread::spawn(move || -> Result<String> {
                loop {
                    let mut y = x.clone();
                    for _ in 0..50 {
                        match y.matmul(&x) {
                            Ok(next) => y = next,
                            Err(e) => return Ok(e.to_string()),
                        }
                    }
                    let waited = match wait {
                        0 => y.to_vec::<f32>().map(drop),
                        1 => synchronize(device),
                        _ => torsh_backend::backend(device)?
                            .record_event()
                            .and_then(|e| e.wait()),
                    };
                    if let Err(e) = waited {
                        return Ok(e.to_string());
                    }
                }
            });
            std::thread::sleep(Duration::from_millis(100));
            d.mock.inject(Injection::Lost);
            let text = waiting.join().expect("no panic")?;
            contains(&text, LOST);
            d.mock.restore();
        }
        Ok(())
    });
}

// ---- Errors that come later ----

/// What panicked.
#[track_caller]
fn panic_text<T>(result: std::thread::Result<T>) -> String {
    match result {
        Ok(_) => panic!("no panic"),
        Err(e) => e
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| e.downcast_ref::<&str>().map(|s| (*s).to_string()))
            .unwrap_or_default(),
    }
}

/// A call with an index out of range on the device, and its line.
fn bad_call(device: Device) -> Result<(Tensor, u32)> {
    let x = tensor![1.0, 2.0].to_device(device)?;
    let bad = Tensor::from_data(&[0i64, 7], [2])?.to_device(device)?;
    synchronize(device)?;
    let line = line!() + 1;
    let y = x.index_select(0, &bad)?;
    Ok((y, line))
}

/// Whether an error is that of [`bad_call`], which is told once.
#[track_caller]
fn told_once(device: Device, text: &str, line: u32) {
    contains(text, &["index_select", "7", &format!("faults.rs:{line}")]);
    if let Err(e) = synchronize(device) {
        panic!("told a second time: {e}");
    }
}

#[test]
fn an_error_that_comes_later_is_told_once_by_every_kind_of_wait() {
    faulty(|d| {
        type Wait = fn(&Tensor) -> Result<()>;
        let waits: [(&str, Wait); 9] = [
            ("item", |y| y.sum()?.item::<f32>().map(drop)),
            ("item of another", |y| {
                y.select(0, 0)?.detach().item::<f32>().map(drop)
            }),
            ("to_vec", |y| y.to_vec::<f32>().map(drop)),
            ("to_bytes", |y| y.to_bytes().map(drop)),
            ("cpu", |y| y.cpu().map(drop)),
            ("copy_ to the host", |y| {
                tensor![0.0, 0.0].copy_(y).map(drop)
            }),
            ("equal", |y| y.equal(y).map(drop)),
            ("synchronize", |y| synchronize(y.device())),
            ("nonzero", |y| y.nonzero().map(drop)),
        ];
        for (name, wait) in waits {
            let (y, line) = bad_call(d.first)?;
            match wait(&y) {
                Ok(()) => panic!("{name} tells nothing"),
                Err(e) => told_once(d.first, &e.to_string(), line),
            }
        }
        // Of a tensor that has nothing to do with it: who waits first is told.
        let other = tensor![5.0].to_device(d.first)?;
        let (y, line) = bad_call(d.first)?;
        told_once(d.first, &says(other.to_vec::<f32>(), &[]), line);
        assert_eq!(other.to_vec::<f32>()?, [5.0]);
        drop(y);
        // Printing has no error to return: the text says it.
        let (y, line) = bad_call(d.first)?;
        told_once(d.first, &y.to_string(), line);
        // `==` neither: it panics.
        let (y, line) = bad_call(d.first)?;
        let text = panic_text(catch_unwind(AssertUnwindSafe(|| y == y.clone())));
        told_once(d.first, &text, line);
        // An event after the call.
        let (_y, line) = bad_call(d.first)?;
        let event = torsh_backend::backend(d.first)?.record_event()?;
        told_once(d.first, &says(event.wait(), &[]), line);
        event.wait()?;
        // Not the other device's.
        let (_y, line) = bad_call(d.first)?;
        synchronize(d.second)?;
        assert_eq!(tensor![1.0].to_device(d.second)?.to_vec::<f32>()?, [1.0]);
        told_once(d.first, &says(synchronize(d.first), &[]), line);
        Ok(())
    });
}

#[test]
fn an_error_of_another_queue_is_told_where_its_result_is_read() {
    faulty(|d| {
        let b = torsh_backend::backend(d.first)?;
        let other = b.new_queue(0)?;
        b.set_queue(other)?;
        let (y, line) = bad_call(d.first)?;
        b.set_queue(QueueId(0))?;
        told_once(d.first, &says(y.add(1.0)?.to_vec::<f32>(), &[]), line);

        b.set_queue(other)?;
        let (_y, line) = bad_call(d.first)?;
        let event = b.record_event()?;
        b.set_queue(QueueId(0))?;
        told_once(d.first, &says(event.wait(), &[]), line);

        b.set_queue(other)?;
        let (_y, line) = bad_call(d.first)?;
        told_once(d.first, &says(synchronize(d.first), &[]), line);
        b.set_queue(QueueId(0))
    });
}

#[test]
fn an_integer_division_by_zero_is_told_later() {
    faulty(|d| {
        let x = Tensor::from_data(&[1i64, 2], [2])?.to_device(d.first)?;
        let zeros = x.mul(0)?;
        let line = line!() + 1;
        let y = x.floor_divide(&zeros)?;
        let text = says(y.to_vec::<i64>(), &["floor_divide"]);
        contains(&text, &["ero", &format!("faults.rs:{line}")]);
        synchronize(d.first)
    });
}

#[test]
fn with_checks_in_step_the_call_itself_is_refused() {
    faulty(|d| {
        set_sync_checks(true);
        let x = tensor![1.0, 2.0].to_device(d.first)?;
        let bad = Tensor::from_data(&[0i64, 7], [2])?.to_device(d.first)?;
        let line = line!() + 1;
        let text = says(x.index_select(0, &bad), &["index_select", "7"]);
        contains(&text, &[&format!("faults.rs:{line}")]);
        set_sync_checks(false);
        synchronize(d.first)?;
        // In backward, too.
        let y = x.index_select(0, &bad)?;
        says(y.to_vec::<f32>(), &["index_select"]);
        Ok(())
    });
}

// ---- Without a kernel ----

#[test]
fn an_op_without_kernel_and_definition_is_refused_or_computed_on_the_cpu() {
    faulty(|d| {
        d.mock.inject(Injection::NoKernel(Kernel::Sort));
        let x = tensor![3.0, 1.0, 2.0];
        let there = x.to_device(d.first)?.requires_grad_(true);
        says(
            there.sort(),
            &["sort", "mock:0 has no kernel", "float32", "set_fallback"],
        );
        let counted = || {
            let of = fallbacks();
            of.iter().find(|(n, _)| *n == "sort").map_or(0, |(_, n)| *n)
        };
        let before = counted();
        set_fallback(Fallback::Cpu);
        let (values, indices) = there.sort()?;
        assert_eq!((values.device(), indices.device()), (d.first, d.first));
        assert_eq!(values.detach().to_vec::<f32>()?, [1.0, 2.0, 3.0]);
        assert_eq!(indices.to_vec::<i64>()?, [1, 2, 0]);
        assert_eq!(counted(), before + 1);
        let weights = tensor![1.0, 10.0, 100.0].to_device(d.first)?;
        values.mul(&weights)?.sum()?.backward()?;
        let grad = there.grad().expect("a gradient");
        assert_eq!(grad.device(), d.first);
        assert_eq!(grad.to_vec::<f32>()?, [100.0, 1.0, 10.0]);
        there.detach().sort()?;
        assert_eq!(counted(), before + 2);

        // In place.
        d.mock.inject(Injection::NoKernel(Kernel::Add));
        let target = there.detach().copy()?;
        target.add_(&weights)?;
        assert_eq!(target.to_vec::<f32>()?, [4.0, 11.0, 102.0]);

        // Where the CPU fails too, and where the copies do.
        let e = says(there.sort_with(SortOptions::new().dim(5)), &["sort", "5"]);
        assert!(!e.contains("no kernel"), "{e}");
        let text = says(failing(|| there.sort()), NO_COPY);
        contains(&text, &["sort"]);
        assert_eq!(there.sort()?.0.detach().to_vec::<f32>()?, [1.0, 2.0, 3.0]);
        Ok(())
    });
}

/// Runs one of the tests below in a process of its own, and returns what it printed.
fn child(test: &str, variable: &str) -> String {
    let own = std::env::current_exe().expect("this program");
    let output = Command::new(own)
        .args(["--exact", &format!("faults::{test}"), "--nocapture"])
        .env(variable, "1")
        .env("FAULTS_CHILD", "1")
        .output()
        .expect("a process");
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
    text
}

fn is_child() -> bool {
    std::env::var_os("FAULTS_CHILD").is_some()
}

#[test]
fn falling_back_is_warned_of_once() {
    if !is_child() {
        let text = child("falling_back_is_warned_of_once", "FAULTS_WARN");
        let warning = "warning: mock:0 has no kernel for 'sort', which is computed on the CPU";
        assert_eq!(text.matches(warning).count(), 1, "{text}");
        return;
    }
    faulty(|d| {
        d.mock.inject(Injection::NoKernel(Kernel::Sort));
        set_fallback(Fallback::Cpu);
        let x = tensor![3.0, 1.0].to_device(d.first)?;
        for n in 1..4 {
            x.sort()?;
            assert_eq!(fallbacks(), [("sort", n)]);
        }
        Ok(())
    });
}

#[test]
fn the_environment_asks_for_checks_in_step() {
    if !is_child() {
        let name = "the_environment_asks_for_checks_in_step";
        child(name, "TORSH_SYNC_CHECKS");
        return;
    }
    faulty(|d| {
        assert!(torsh_tensor::devices::sync_checks());
        let x = tensor![1.0, 2.0].to_device(d.first)?;
        let bad = Tensor::from_data(&[7i64], [1])?.to_device(d.first)?;
        says(x.index_select(0, &bad), &["index_select", "7"]);
        synchronize(d.first)
    });
}

// ---- Copies between devices ----

#[test]
fn copies_go_between_all_devices() {
    faulty(|d| {
        let all = [Device::Cpu, d.first, d.second];
        let source = tensor![[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]];
        for from in all {
            for to in all {
                let s = source.to_device(from)?;
                // Of the same dtype, of another, of a row to all rows, between other orders in memory.
                let target = Tensor::zeros([2, 3], DType::F32, to)?;
                assert_eq!(target.copy_(&s)?.cpu()?, source, "{from} to {to}");
                let ints = Tensor::zeros([2, 3], DType::I32, to)?;
                assert_eq!(ints.copy_(&s)?.to_vec::<i32>()?, [1, 2, 3, 4, 5, 6]);
                let rows = Tensor::zeros([2, 3], DType::F16, to)?;
                let row = s.select(0, 1)?;
                let want = [4.5, 5.5, 6.5, 4.5, 5.5, 6.5];
                assert_eq!(rows.copy_(&row)?.to_vec::<f32>()?, want);
                let turned = Tensor::zeros([3, 2], DType::F32, to)?;
                turned.t()?.copy_(&s)?;
                assert_eq!(turned.cpu()?, source.t()?);
                turned.narrow(0, 1, 1)?.copy_(&s.t()?.narrow(0, 0, 1)?)?;
                assert_eq!(turned.to_vec::<f32>()?, [1.5, 4.5, 1.5, 4.5, 3.5, 6.5]);
                let one = Tensor::zeros([2], DType::F32, to)?;
                assert_eq!(one.copy_(&s.sum()?)?.to_vec::<f32>()?, [24.0, 24.0]);

                // Gradients go back to where the source is.
                let s = s.detach().requires_grad_(true);
                let target = Tensor::zeros([2, 3], DType::F32, to)?;
                let y = target.copy_(&s)?.mul(2.0)?.sum()?;
                y.backward()?;
                let g = s.grad().expect("a gradient");
                assert_eq!(g.device(), from, "{from} to {to}");
                assert_eq!(g.to_vec::<f32>()?, [2.0; 6]);
                // Through a move.
                let moved = source.to_device(from)?.detach().requires_grad_(true);
                moved.to_device(to)?.mul(3.0)?.sum()?.backward()?;
                let g = moved.grad().expect("a gradient");
                assert_eq!((g.device(), g.to_vec::<f32>()?), (from, vec![3.0; 6]));
            }
        }
        // What only the host has is converted there.
        let double = tensor![1.25, 2.5].to_dtype(DType::F64)?;
        let there = Tensor::zeros([2], DType::F32, d.first)?;
        assert_eq!(there.copy_(&double)?.to_vec::<f32>()?, [1.25, 2.5]);
        Ok(())
    });
}
