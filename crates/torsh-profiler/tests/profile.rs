//! Profiles of known programs.

use std::sync::{Arc, Barrier, Mutex};

use torsh_nn::{Linear, Module, ReLU, Sequential, sequential};
use torsh_profiler::{
    EventKind, EventList, KeyAveragesOptions, Profile, ProfileOptions, profile, profile_with,
    record_function, schedule,
};
use torsh_tensor::{DType, Device, Result, ScaledDotProductAttentionOptions, Tensor, ones, tensor};

fn names(events: &EventList) -> Vec<&str> {
    events.iter().map(|e| e.name.as_str()).collect()
}

/// Names, indented by how deep they lie.
fn tree(events: &EventList) -> Vec<String> {
    let mut depth = vec![0; events.len()];
    let mut out = Vec::new();
    for (i, e) in events.iter().enumerate() {
        depth[i] = e.parent.map_or(0, |p| depth[p] + 1);
        out.push(" ".repeat(depth[i]) + &e.name);
    }
    out
}

/// What must hold of any profile.
fn consistent(events: &EventList) {
    let close = |a: f64, b: f64| (a - b).abs() < 1e-6 * (1.0 + a.abs());
    let mut top = 0.0;
    for e in events {
        assert!(e.end_us >= e.start_us, "{e:?}");
        assert!(e.self_cpu_time_total <= e.cpu_time_total(), "{e:?}");
        assert!(e.self_cpu_time_total >= -1e-6, "{e:?}");
        let children = || e.children.iter().map(|&i| &events[i]);
        let within: f64 = children().map(|c| c.cpu_time_total()).sum();
        assert!(close(e.self_cpu_time_total + within, e.cpu_time_total()));
        let memory: i64 = children().map(|c| c.cpu_memory_usage()).sum();
        assert_eq!(e.self_cpu_memory_usage + memory, e.cpu_memory_usage());
        let mut end = e.start_us;
        for c in children() {
            assert!(c.start_us >= end && c.end_us <= e.end_us, "{c:?} in {e:?}");
            assert_eq!(c.thread, e.thread);
            end = c.end_us;
        }
        if e.parent.is_none() {
            top += e.cpu_time_total();
        }
    }
    assert!(close(events.self_cpu_time_total(), top));
}

fn net() -> Sequential {
    sequential![Linear::new(8, 4), ReLU::new(), Linear::new(4, 2)]
}

#[test]
fn a_training_step_op_by_op() {
    let (net, x, y) = (net(), ones(&[16, 8]), ones(&[16, 2]));
    let prof = profile(|| {
        let loss = record_function("forward", || net.forward(&x)?.mse_loss(&y))?;
        loss.backward()
    })
    .unwrap();
    let events = prof.events();
    consistent(&events);
    let tree = tree(&events);
    let engine = "autograd::engine::evaluate_function: ";
    let expected = [
        "forward",
        " aten::linear",
        " aten::relu",
        " aten::linear",
        " aten::mse_loss",
        "  aten::mse_loss",
        "  aten::mean",
        "aten::fill_",
        "MeanBackward0",
        "  aten::view",
        "  aten::div",
        "  aten::expand",
        "MseLossBackward0",
        "  aten::sub",
        "  aten::mul",
        "  aten::mul",
        "LinearBackward0",
        "  aten::matmul",
        "  aten::matmul",
        "  aten::sum",
        "  aten::view",
        "ReluBackward0",
        "  aten::relu_backward",
        "LinearBackward0",
        // The input asks for no gradient.
        "  aten::matmul",
        "  aten::sum",
        "  aten::view",
    ];
    let mut wanted: Vec<String> = Vec::new();
    for name in expected {
        if name.ends_with("Backward0") {
            wanted.push(format!("{engine}{name}"));
            wanted.push(format!(" {name}"));
        } else {
            wanted.push(name.to_string());
        }
    }
    assert_eq!(tree[..wanted.len()], wanted);
    // Leaves come last, in no particular order: two weights and two biases.
    let rest = &tree[wanted.len()..];
    let count = |n: &str| rest.iter().filter(|t| t.trim() == n).count();
    let accumulate = "torch::autograd::AccumulateGrad";
    assert_eq!(count(accumulate), 4);
    assert_eq!(count(&format!("{engine}{accumulate}")), 4);
    let averages = prof.key_averages();
    let calls = |n: &str| averages.get(n).map(|e| e.count);
    assert_eq!(
        (calls("aten::matmul"), calls("aten::linear")),
        (Some(3), Some(2))
    );
    assert_eq!(calls("LinearBackward0"), Some(2));
}

#[test]
fn nothing_is_seen_before_and_after() {
    let x = tensor![1.0, 2.0];
    x.exp().unwrap();
    let prof = Profile::builder().build();
    prof.start().unwrap();
    x.sin().unwrap();
    prof.stop().unwrap();
    x.cos().unwrap();
    assert_eq!(names(&prof.events()), ["aten::sin"]);
    // A second start forgets the first.
    prof.run(|| x.exp()).unwrap();
    assert_eq!(names(&prof.events()), ["aten::exp"]);
}

#[test]
fn in_place_views_and_failures() {
    let x = ones(&[2, 3]);
    let prof = profile(|| {
        x.add_(1.0)?;
        x.t()?.fill_(2.0)?;
        assert!(x.add(&ones(&[4])).is_err());
        x.cumsum_(0)?;
        Tensor::cat(&[&x, &x], 0)
    });
    let events = prof.unwrap().events();
    consistent(&events);
    let expected = [
        "aten::add_",
        "aten::transpose",
        "aten::fill_",
        "aten::fill_",
        "aten::add",
        "aten::cumsum_",
        " aten::cumsum",
        " aten::copy_",
        "aten::cat",
    ];
    assert_eq!(tree(&events), expected);
}

#[test]
fn shapes_and_what_they_tell_apart() {
    let (a, b) = (ones(&[2, 3]), ones(&[3, 4]));
    let options = ProfileOptions::new().record_shapes(true);
    let prof = profile_with(options, || {
        a.mm(&b)?;
        a.mm(&b)?;
        b.t()?.mm(&a.t()?)?;
        a.add(1.0)
    });
    let prof = prof.unwrap();
    let all = prof.key_averages();
    assert_eq!(all.get("aten::mm").unwrap().count, 3);
    assert_eq!(all.get("aten::mm").unwrap().input_shapes, None);
    let by_shape = KeyAveragesOptions::new().group_by_input_shape(true);
    let apart = prof.key_averages_with(by_shape);
    let mm: Vec<_> = apart.iter().filter(|e| e.key == "aten::mm").collect();
    assert_eq!(mm.len(), 2);
    assert_eq!(mm[0].count, 2);
    assert_eq!(mm[0].input_shapes, Some(vec![vec![2, 3], vec![3, 4]]));
    assert_eq!(mm[1].input_shapes, Some(vec![vec![4, 3], vec![3, 2]]));
    let add = apart.get("aten::add").unwrap();
    assert_eq!(add.input_shapes, Some(vec![vec![2, 3], vec![]]));
    let x = ones(&[5]).requires_grad_(true);
    let options = ProfileOptions::new().record_shapes(true);
    let y = x.mul(2.0).unwrap().sum().unwrap();
    let prof = profile_with(options, || y.backward()).unwrap();
    let events = prof.events();
    let shapes = |n: &str| &events.iter().find(|e| e.name == n).unwrap().input_shapes;
    assert_eq!(shapes("MulBackward0"), &[vec![5]]);
    assert_eq!(shapes("SumBackward0"), &[Vec::<usize>::new()]);
}

#[test]
fn memory_is_that_of_the_tensors() {
    let x = ones(&[1024]);
    let prof = profile_with(ProfileOptions::new().profile_memory(true), || {
        let y = record_function("keep", || {
            let y = x.add(1.0)?;
            drop(x.mul(2.0)?);
            Ok(y)
        })?;
        drop(y);
        let big = Tensor::zeros(&[1 << 20], DType::F32, Device::Cpu)?;
        big.sum()
    });
    let events = prof.unwrap().events();
    consistent(&events);
    let get = |n: &str| events.iter().find(|e| e.name == n).unwrap();
    let keep = get("keep");
    assert_eq!((keep.allocated_bytes, keep.freed_bytes), (8192, 4096));
    assert_eq!(
        (keep.cpu_memory_usage(), keep.self_cpu_memory_usage),
        (4096, -4096)
    );
    assert_eq!(get("aten::add").cpu_memory_usage(), 4096);
    // Between the events `y` went and `big` came.
    let memory: Vec<_> = events
        .iter()
        .filter(|e| e.kind == EventKind::Memory)
        .collect();
    assert_eq!(memory[0].cpu_memory_usage(), (4 << 20) - 4096);
    // The sum's workspace comes and goes.
    assert_eq!(get("aten::sum").cpu_memory_usage(), 64);
    // And at the end `big` did; the result of the sum is dropped by `profile`.
    assert_eq!(memory[1].cpu_memory_usage(), -(4 << 20));
    let total: i64 = events
        .iter()
        .filter(|e| e.parent.is_none())
        .map(|e| e.cpu_memory_usage())
        .sum();
    assert!(total == 64 || total == 0, "{total}");
}

#[test]
fn source_lines() {
    let x = tensor![1.0, 2.0].requires_grad_(true);
    let line = line!() + 2;
    let prof = profile_with(ProfileOptions::new().with_stack(true), || {
        record_function("range", || x.mul(3.0))?.sum()?.backward()
    });
    let prof = prof.unwrap();
    let events = prof.events();
    let mul = events.iter().find(|e| e.name == "aten::mul").unwrap();
    let here = |name: &str| format!("{}({line}): {name}", file!());
    assert_eq!(mul.stack, [here("aten::mul"), here("range")]);
    // Backward shows the forward call.
    let node = events.iter().find(|e| e.name == "MulBackward0").unwrap();
    assert_eq!(node.stack[0], here("MulBackward0"));
    let path = std::env::temp_dir().join(format!("torsh_profile_{}", std::process::id()));
    prof.export_stacks(&path, "self_cpu_time_total").unwrap();
    std::fs::remove_file(&path).unwrap();
    let e = profile(|| Ok(()))
        .unwrap()
        .export_stacks(&path, "self_cpu_time_total");
    assert!(e.unwrap_err().to_string().contains("with_stack(true)"));
}

#[test]
fn composite_functions_hold_their_parts() {
    let q = ones(&[1, 2, 4]);
    let prof = profile(|| q.scaled_dot_product_attention(&q, &q)).unwrap();
    let events = prof.events();
    consistent(&events);
    let tree = tree(&events);
    assert_eq!(tree[0], "aten::scaled_dot_product_attention");
    assert!(tree[1..].iter().all(|n| n.starts_with(' ')));
    let parts = |n: &str| events.iter().filter(|e| e.name == n).count();
    assert_eq!(
        parts("aten::_scaled_dot_product_flash_attention_for_cpu"),
        1
    );
    let mask = ones(&[2, 2]).requires_grad_(true);
    let options = ScaledDotProductAttentionOptions::new().attn_mask(&mask);
    let prof = profile(|| q.scaled_dot_product_attention_with(&q, &q, options)).unwrap();
    let events = prof.events();
    let parts = |n: &str| events.iter().filter(|e| e.name == n).count();
    assert_eq!((parts("aten::matmul"), parts("aten::softmax")), (2, 1));
}

#[test]
fn threads_keep_their_own_nesting() {
    let prof = Profile::builder().profile_memory(true).build();
    let together = Barrier::new(4);
    prof.run(|| {
        std::thread::scope(|s| {
            for n in 0..4usize {
                let (prof, together) = (prof.clone(), &together);
                s.spawn(move || {
                    let x = ones(&[64]).requires_grad_(true);
                    together.wait();
                    prof.attach(|| {
                        for _ in 0..=n {
                            record_function("work", || x.exp()?.sum()?.backward())?;
                        }
                        Ok(())
                    })
                    .unwrap();
                    // Detached again.
                    x.sin().unwrap();
                });
            }
        });
        Ok(())
    })
    .unwrap();
    let events = prof.events();
    consistent(&events);
    let averages = events.key_averages();
    assert_eq!(averages.get("work").unwrap().count, 1 + 2 + 3 + 4);
    assert_eq!(averages.get("ExpBackward0").unwrap().count, 10);
    assert_eq!(
        averages
            .get("torch::autograd::AccumulateGrad")
            .unwrap()
            .count,
        10
    );
    assert!(averages.get("aten::sin").is_none());
    let mut per_thread = std::collections::BTreeMap::new();
    for e in events.iter().filter(|e| e.name == "work") {
        *per_thread.entry(e.thread).or_insert(0) += 1;
        let inner = e
            .children
            .iter()
            .filter(|&&i| events[i].name == "aten::exp");
        assert_eq!(inner.count(), 1);
    }
    let mut counts: Vec<i32> = per_thread.into_values().collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2, 3, 4]);
}

#[test]
fn a_schedule_records_its_steps() {
    let seen: Arc<Mutex<Vec<(usize, Vec<String>)>>> = Arc::default();
    let sink = seen.clone();
    let prof = Profile::builder()
        .schedule(schedule(1, 1, 2, 2).unwrap())
        .on_trace_ready(move |p| {
            let list = p.events().iter().map(|e| e.name.clone()).collect();
            sink.lock().unwrap().push((p.step_num(), list));
            Ok(())
        })
        .build();
    let x = tensor![1.0];
    prof.run(|| {
        for step in 0..10 {
            assert_eq!(prof.is_recording(), [2, 3, 6, 7].contains(&step), "{step}");
            x.mul(step as f64)?;
            prof.step()?;
        }
        Ok(())
    })
    .unwrap();
    let cycle = |a: usize, b: usize| {
        let step = |n: usize| [format!("ProfilerStep#{n}"), "aten::mul".to_string()];
        [step(a), step(b)].concat()
    };
    let seen = seen.lock().unwrap();
    assert_eq!(*seen, [(4, cycle(2, 3)), (8, cycle(6, 7))]);
    let averages = prof.key_averages();
    assert_eq!(averages.get("ProfilerStep*").unwrap().count, 2);
}

#[test]
fn misuse_is_an_error() {
    let prof = Profile::builder().build();
    assert!(prof.step().unwrap_err().to_string().contains("not running"));
    assert!(prof.stop().unwrap_err().to_string().contains("not running"));
    prof.start().unwrap();
    let e = prof.start().unwrap_err();
    assert!(e.to_string().contains("is running"), "{e}");
    prof.stop().unwrap();
    assert!(schedule(1, 1, 0, 0).is_err());
    // A failing closure leaves nothing running, and so does one that panics.
    let fail = || -> Result<()> { Err(torsh_tensor::TorshError::Other("no".into())) };
    assert!(prof.run(fail).is_err());
    let panics = std::panic::AssertUnwindSafe(|| prof.run::<()>(|| panic!("no")));
    assert!(std::panic::catch_unwind(panics).is_err());
    assert!(!prof.is_recording());
    let x = ones(&[1]);
    prof.run(|| x.exp()).unwrap();
    assert_eq!(names(&prof.events()), ["aten::exp"]);
}

#[test]
fn a_dropped_profiler_watches_no_longer() {
    let x = ones(&[1]);
    let prof = Profile::builder().build();
    prof.start().unwrap();
    let clone = prof.clone();
    drop(prof);
    x.exp().unwrap();
    assert_eq!(names(&clone.events()), ["aten::exp"]);
    drop(clone);
    // Another one starts afresh, within a range that began without it.
    let other = Profile::builder().build();
    record_function("outer", || {
        other.start()?;
        record_function("inner", || x.sin())
    })
    .unwrap();
    x.cos().unwrap();
    other.stop().unwrap();
    assert_eq!(tree(&other.events()), ["inner", " aten::sin", "aten::cos"]);
}

#[test]
fn results_are_those_without_a_profile() {
    let run = || -> Result<(Vec<f32>, Vec<f32>)> {
        let w = ones(&[3, 3]).requires_grad_(true);
        let y = w.mul(&w)?.mm(&w)?.exp()?.sum()?;
        y.backward()?;
        w.detach().add_(1.0)?;
        Ok((w.to_vec()?, w.grad().map_or(Ok(vec![]), |g| g.to_vec())?))
    };
    let plain = run().unwrap();
    let prof = Profile::builder()
        .record_shapes(true)
        .profile_memory(true)
        .with_stack(true)
        .build();
    assert_eq!(prof.run(run).unwrap(), plain);
}
