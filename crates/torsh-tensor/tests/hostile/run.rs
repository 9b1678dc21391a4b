//! Making the calls, and watching them.

use std::cell::Cell;
use std::fs::File;
use std::io::{Seek, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use torsh_core::alloc;
use torsh_tensor::call::Arg;
use torsh_tensor::record::Rule;
use torsh_tensor::{Device, Tensor, Value, grad, observe, ops};

use crate::make::{Case, Form, Maker, describe};
use crate::methods::{METHODS, Operands};
use crate::variable;

/// The most memory that the calls may use at once, and the most that is kept of it when it is free. Without a limit a block
/// of each size stays, up to a quarter of the machine's memory, the more of them the longer a run is.
const MEMORY: usize = 64 << 20;
/// The most the whole process may have used: the above, its other caches, and its own.
const RESIDENT_KIB: u64 = 1 << 20;
/// The most that may be in use after the last call: what a call makes ends with it.
const LEFT: usize = 4 << 20;
/// The longest a call may take, on a busy machine without optimisation.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Tensors of more elements are never read element by element.
const READABLE: usize = 1 << 22;

/// Milliseconds since the start when the current call began; 0 between calls.
static BEGAN: AtomicU64 = AtomicU64::new(0);
static PANIC: Mutex<String> = Mutex::new(String::new());

fn watch(started: Instant) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let began = BEGAN.load(Relaxed);
            let now = started.elapsed().as_millis() as u64;
            if began != 0 && now.saturating_sub(began) > TIMEOUT.as_millis() as u64 {
                eprintln!("hostile: the call does not end");
                std::process::abort();
            }
        }
    });
}

fn hook() {
    std::panic::set_hook(Box::new(|info| {
        let trace = std::backtrace::Backtrace::force_capture().to_string();
        let lines: Vec<&str> = trace.lines().map(str::trim).collect();
        let own = lines.windows(2).filter(|w| {
            w[1].starts_with("at ") && (w[1].contains("crates/torsh") || w[1].contains("at ./"))
        });
        let mut own: Vec<String> = own
            .filter(|w| !w[1].contains("tests/hostile"))
            .map(|w| format!("    {}", w[1]))
            .take(7)
            .collect();
        // Without debug information functions have names, and no lines.
        if !own.iter().any(|w| w.contains("crates/torsh")) {
            let ours = lines
                .iter()
                .filter(|l| l.contains("torsh_") && !l.contains("hostile"));
            own = ours.map(|l| format!("    {l}")).take(7).collect();
        }
        let said = info.to_string().replace('\n', "\n    ");
        let text = format!("{said}\n{}", own.join("\n"));
        // Now, as a panic where none may unwind ends the process.
        eprintln!("hostile: {text}");
        *PANIC.lock().expect("no panic while it is held") = text;
    }));
}

pub(crate) fn calls(journal: &Path, count: u64) {
    let seed = variable("TORSH_FUZZ_SEED").unwrap_or(1);
    let only = variable("TORSH_FUZZ_CALL");
    let first = only.or(variable("TORSH_FUZZ_FIRST")).unwrap_or(0);
    if std::env::var_os("TORSH_FUZZ_DESCRIBE").is_some() {
        println!(
            "hostile: seed {seed} call {first}: {}",
            text(&case(seed, first))
        );
        return;
    }
    let seconds = variable("TORSH_FUZZ_SECONDS");
    alloc::set_limit(Some(MEMORY));
    alloc::set_cache_limit(MEMORY);
    let before = alloc::stats().allocated_bytes;
    hook();
    let started = Instant::now();
    watch(started);
    let mut note = File::create(journal).expect("a file for the number of the call");
    let mut places: Vec<String> = Vec::new();
    let (mut n, mut good) = (first, 0u64);
    loop {
        match (only, seconds) {
            (Some(_), _) if n > first => break,
            (None, Some(s)) if started.elapsed().as_secs() >= s => break,
            (None, None) if n >= count => break,
            _ => {}
        }
        note.rewind()
            .and_then(|()| note.write_all(format!("{n:<20}").as_bytes()))
            .expect("the number is noted");
        BEGAN.store(started.elapsed().as_millis() as u64 + 1, Relaxed);
        let r = catch_unwind(AssertUnwindSafe(|| one(&case(seed, n))));
        BEGAN.store(0, Relaxed);
        match r {
            Ok(ok) => good += u64::from(ok),
            Err(_) => {
                let what = PANIC
                    .lock()
                    .map_or_else(|e| e.into_inner().clone(), |p| p.clone());
                let place = what.lines().next().unwrap_or("").to_string()
                    + what.lines().nth(2).unwrap_or("");
                if !places.contains(&place) {
                    places.push(place);
                    println!(
                        "hostile: {what}\n    seed {seed} call {n}: {}",
                        text(&case(seed, n))
                    );
                }
            }
        }
        n += 1;
    }
    let used = resident_kib();
    let stats = alloc::stats();
    let left = stats.allocated_bytes.saturating_sub(before);
    println!(
        "hostile: {} calls from {first} in {:.1} s, {good} of them Ok, {} places panic, {} MiB resident at most, {} KiB left in use, {} KiB cached",
        n - first,
        started.elapsed().as_secs_f64(),
        places.len(),
        used >> 10,
        left >> 10,
        stats.cached_bytes >> 10,
    );
    assert!(places.is_empty(), "{} places panic", places.len());
    assert!(left < LEFT, "{left} bytes are in use after the last call");
    // AddressSanitizer keeps what was freed, to find who still uses it.
    let keeps = std::env::var_os("ASAN_OPTIONS").is_some();
    assert!(keeps || used < RESIDENT_KIB, "{used} KiB resident");
    // Ok is common too, or the arguments test nothing but the checks of arguments.
    assert!(only.is_some() || n - first < 1000 || good * 5 > n - first);
}

/// The most memory the process has had, where the system tells.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse().ok())
        .unwrap_or(0)
}

fn case(seed: u64, n: u64) -> Case {
    Maker::new(seed, n).case()
}

fn text(c: &Case) -> String {
    let mut parts: Vec<String> = c.args.iter().map(describe).collect();
    parts.extend(c.kwargs.iter().map(|(n, v)| format!("{n}={}", describe(v))));
    format!(
        "{} {:?} grad={}({})",
        c.name,
        c.form,
        c.backward,
        parts.join(", ")
    )
}

fn tensors(c: &Case) -> Vec<Tensor> {
    let all = c.args.iter().chain(c.kwargs.iter().map(|(_, v)| v));
    all.flat_map(Value::tensors).collect()
}

/// How many elements a tensor has, or stores.
fn elements(t: &Tensor) -> usize {
    t.pattern().map_or(t.numel(), |p| p.values_shape().numel())
}

fn is_huge(t: &Tensor) -> bool {
    elements(t) > READABLE && t.device() != Device::Meta
}

fn on_meta(v: &Value) -> Value {
    match v {
        Value::Tensor(t) => t
            .to_device(Device::Meta)
            .map_or_else(|_| v.clone(), Value::Tensor),
        Value::List(l) => Value::List(l.iter().map(on_meta).collect()),
        Value::Tuple(l) => Value::Tuple(l.iter().map(on_meta).collect()),
        v => v.clone(),
    }
}

/// Ops that read their operand on the host, but know their result's shape without: on the meta device they do
/// nothing that could be observed.
const READ_ON_HOST: &[&str] = &[
    "binomial",
    "histc",
    "histogram",
    "histogramdd",
    "nonzero_static",
    "poisson",
    "segment_reduce",
];

/// Whether a call on a tensor far larger than memory would read it all, which is no defect: what
/// it makes of it is small.
fn would_read(c: &Case) -> bool {
    // What writes into its operand makes nothing that would be refused.
    let written = !matches!(c.form, Form::Name) || c.name.ends_with('_');
    if written || READ_ON_HOST.contains(&c.name) {
        return true;
    }
    let args: Vec<Value> = c.args.iter().map(on_meta).collect();
    let kwargs: Vec<_> = c.kwargs.iter().map(|(n, v)| (*n, on_meta(v))).collect();
    let reads = Rc::new(Cell::new(false));
    let seen = reads.clone();
    let watch = move |e: &observe::Event<'_>| {
        let large = |t: &Tensor| elements(t) > READABLE;
        let view = matches!(e.record.rule(), Rule::View(_) | Rule::ViewAs(_));
        let from = e.args.iter().any(|a| matches!(a, Arg::T(t) if large(t)));
        if !view && from && !e.outputs.iter().any(large) {
            seen.set(true);
        }
    };
    match observe::observe(watch, || ops::call(c.name, &args, &kwargs)) {
        Err(e) if e.to_string().contains("meta") => true,
        _ => reads.get(),
    }
}

fn operands(c: &Case) -> Option<Operands> {
    let t = tensors(c);
    let [x, index, square, source, mask] = <[Tensor; 5]>::try_from(t).ok()?;
    let int = |i: usize| match c.args[5 + i] {
        Value::Int(v) => v,
        _ => 0,
    };
    let (Value::Float(float), Value::DType(dtype)) = (&c.args[9], &c.args[10]) else {
        return None;
    };
    Some(Operands {
        x,
        index,
        square,
        source,
        mask,
        ints: std::array::from_fn(int),
        float: *float,
        dtype: *dtype,
    })
}

/// Makes one call and what follows from it; whether the call itself gave `Ok`.
fn one(c: &Case) -> bool {
    if tensors(c).iter().any(is_huge) && would_read(c) {
        return false;
    }
    let result = match c.form {
        Form::Name => ops::call(c.name, &c.args, &c.kwargs),
        Form::Method(which) => match operands(c) {
            Some(o) => (METHODS[which].1)(&o).map(Value::Tensor),
            None => return false,
        },
        Form::InPlace(record, arity) => {
            let operands: Vec<Arg<'_>> = c.args[..arity.min(c.args.len())]
                .iter()
                .map(|v| match v {
                    Value::Tensor(t) => Arg::T(t),
                    v => v.number().map_or(Arg::Absent, Arg::N),
                })
                .collect();
            let numbers = c.args[operands.len()..].iter().map(Value::number);
            let Some(numbers) = numbers.collect::<Option<Vec<_>>>() else {
                return false;
            };
            let attrs = record.with_numbers(&numbers);
            match operands.split_first() {
                Some((Arg::T(target), rest)) => record
                    .call_inplace(target, rest, attrs.get())
                    .map(|()| Value::Tensor((*target).clone())),
                _ => return false,
            }
        }
    };
    let value = match result {
        Ok(v) => v,
        Err(e) => {
            // The text of an error is made when it is read.
            assert!(!e.to_string().is_empty());
            return false;
        }
    };
    let outputs = value.tensors();
    for t in &outputs {
        if t.numel() <= 64 {
            let _ = format!("{t}");
        }
    }
    if outputs.len() < 100 && !outputs.iter().any(is_huge) {
        backward(c, &outputs);
    }
    true
}

fn backward(c: &Case, outputs: &[Tensor]) {
    let outputs: Vec<Tensor> = outputs
        .iter()
        .filter(|t| t.requires_grad())
        .cloned()
        .collect();
    if outputs.is_empty() || c.backward == 0 {
        return;
    }
    let leaves: Vec<Tensor> = c
        .leaves
        .iter()
        .filter(|t| t.requires_grad())
        .cloned()
        .collect();
    let ones: Vec<Option<Tensor>> = outputs
        .iter()
        .map(|t| Tensor::ones(t.shape(), t.dtype(), t.device()).ok())
        .collect();
    match c.backward {
        1 => {
            for (t, g) in outputs.iter().zip(ones) {
                let _ = t.backward_with(g, true, false);
            }
        }
        2 => {
            for t in &outputs {
                let _ = t.sum().and_then(|s| s.backward());
            }
        }
        3 => {
            let _ = outputs[0].backward_with(c.gradient.clone(), false, true);
        }
        _ => {
            if let Ok(first) = grad(&outputs, &leaves, &ones, true, true, true) {
                let first: Vec<Tensor> = first
                    .into_iter()
                    .flatten()
                    .filter(Tensor::requires_grad)
                    .collect();
                let ones: Vec<Option<Tensor>> = first
                    .iter()
                    .map(|t| Tensor::ones(t.shape(), t.dtype(), t.device()).ok())
                    .collect();
                let _ = grad(&first, &leaves, &ones, false, false, true);
            }
        }
    }
    for t in &leaves {
        // A gradient is its leaf's size and dtype, whatever came before.
        if let Some(g) = t.grad() {
            assert_eq!((g.shape(), g.dtype()), (t.shape(), t.dtype()));
        }
    }
    // A gradient that was recorded holds the leaf that holds it: neither would ever end.
    c.leaves.iter().for_each(Tensor::zero_grad);
}
