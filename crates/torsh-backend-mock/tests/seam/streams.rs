//! Streams and events, on a device whose streams are threads of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use torsh_backend_mock::{Injection, mock};
use torsh_tensor::devices::{synchronize, wait_idle};
use torsh_tensor::{
    DType, Device, Event, EventOptions, Result, Stream, StreamOptions, Tensor, TorshError,
    current_stream, default_stream, set_stream, stream, stream_guard, tensor,
};

use crate::alone;

fn timed(device: Device) -> Result<Event> {
    Event::new_with(device, EventOptions::new().enable_timing(true))
}

/// Work whose error comes later, and the line that asked for it.
fn bad_index(device: Device) -> Result<(Tensor, u32)> {
    let x = tensor![1.0, 2.0].to_device(device)?;
    let bad = Tensor::from_data(&[0i64, 7], [2])?.to_device(device)?;
    Ok((x.index_select(0, &bad)?, line!()))
}

#[test]
fn streams_wait_for_each_others_tensors() -> Result<()> {
    let (d, _, _alone) = alone();
    let (a, b) = (Stream::new(d)?, Stream::new(d)?);
    assert!(a != b && a != default_stream(d)? && a.device() == d);
    let x = Tensor::randn([64, 64], DType::F32, Device::Cpu)?.mul(0.1)?;
    let step = |x: &Tensor, y: &Tensor| -> Result<(Tensor, Tensor)> {
        Ok((x.mm(y)?.add(x)?, y.sub(0.25)?.sin()?))
    };
    let (mut want_x, mut want_y) = (x.clone(), x.t()?.copy()?);
    let (mut have_x, mut have_y) = (want_x.to_device(d)?, want_y.to_device(d)?);
    for i in 0..12 {
        (want_x, want_y) = step(&want_x, &want_y)?;
        want_x.mul_(0.01)?;
        // Written on one stream, read on two, written over on a third; old tensors go meanwhile.
        let new_x = stream(&a, || have_x.mm(&have_y)?.add(&have_x))?;
        let new_y = stream(&b, || have_y.sub(0.25)?.sin())?;
        (have_x, have_y) = (new_x, new_y);
        match i % 2 {
            0 => have_x.mul_(0.01)?,
            _ => stream(&b, || have_x.mul_(0.01))?,
        };
    }
    assert_eq!(have_x.to_vec::<f32>()?, want_x.to_vec::<f32>()?);
    assert_eq!(have_y.to_vec::<f32>()?, want_y.to_vec::<f32>()?);
    Ok(())
}

#[test]
fn gradients_are_the_same_whatever_the_stream() -> Result<()> {
    let (d, _, _alone) = alone();
    let side = Stream::new(d)?;
    let w = tensor![[1.0, 2.0], [3.0, 4.0]];
    let gradient = |w: &Tensor, on: Option<&Stream>| -> Result<Tensor> {
        let w = w.detach().requires_grad_(true);
        let y = w.mm(&w)?.sin()?;
        match on {
            Some(s) => stream(s, || y.sum()?.backward())?,
            None => y.sum()?.backward()?,
        }
        Ok(w.grad().expect("a gradient"))
    };
    let want = gradient(&w, None)?;
    let have = gradient(&w.to_device(d)?, Some(&side))?;
    assert_eq!(have.cpu()?, want);
    Ok(())
}

#[test]
fn the_current_stream_is_the_threads_own() -> Result<()> {
    let (d, _, _alone) = alone();
    let side = Stream::new(d)?;
    let usual = default_stream(d)?;
    assert_eq!((current_stream(d)?, usual.stream_id()), (usual, 0));
    let guard = stream_guard(&side)?;
    assert_eq!(current_stream(d)?, side);
    // Another device, and another thread, have theirs.
    assert_eq!(current_stream(Device::Custom(1))?.stream_id(), 0);
    let other = std::thread::spawn(move || current_stream(d));
    assert_eq!(other.join().expect("no panic")?, usual);
    let inner = Stream::new(d)?;
    let e = stream(&inner, || -> Result<()> {
        assert_eq!(current_stream(d)?, inner);
        Err(TorshError::OutOfMemory)
    });
    assert!(matches!(e, Err(TorshError::OutOfMemory)));
    assert_eq!(current_stream(d)?, side);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        stream(&inner, || -> Result<()> { panic!("on purpose") })
    }));
    assert!(panicked.is_err());
    assert_eq!(current_stream(d)?, side);
    drop(guard);
    assert_eq!(current_stream(d)?, usual);
    set_stream(&inner)?;
    assert_eq!(current_stream(d)?, inner);
    set_stream(&usual)
}

#[test]
fn events_order_work_and_time_it() -> Result<()> {
    let (d, _, _alone) = alone();
    let (a, b) = (Stream::new(d)?, Stream::new(d)?);
    let (start, worked, after) = (timed(d)?, timed(d)?, timed(d)?);
    let x = Tensor::ones([160, 160], DType::F32, d)?;
    let y = stream(&a, || {
        start.record()?;
        let mut y = x.mm(&x)?;
        for _ in 0..2 {
            y = y.mm(&x)?;
        }
        worked.record()?;
        Ok(y)
    })?;
    assert!(!worked.query()? || start.query()?);
    // Nothing of `b` uses `y`: only the event keeps it back.
    b.wait_event(&worked)?;
    after.record_on(&b)?;
    after.synchronize()?;
    assert!(start.query()? && worked.query()? && after.query()?);
    assert!(start.elapsed_time(&worked)? > 0.0);
    assert!(worked.elapsed_time(&after)? >= 0.0);
    assert!(after.elapsed_time(&start)? < 0.0);
    let sum = start.elapsed_time(&worked)? + worked.elapsed_time(&after)?;
    assert!((start.elapsed_time(&after)? - sum).abs() < 1e-6);
    // A stream that waits for a stream, and an event that the current stream waits for.
    let late = stream(&a, || y.mul(2.0))?;
    b.wait_stream(&a)?;
    let end = b.record_event()?;
    end.synchronize()?;
    assert!(a.query()?);
    stream(&b, || worked.wait())?;
    assert_eq!(late.sum()?.item::<f32>()?, 2.0 * 160f32.powi(5));
    Ok(())
}

#[test]
fn what_events_cannot_tell_is_an_error() -> Result<()> {
    let (d, _, _alone) = alone();
    let (plain, one, two) = (Event::new(d)?, timed(d)?, timed(d)?);
    let text = |r: Result<f64>| r.expect_err("no time").to_string();
    one.record()?;
    plain.record()?;
    plain.synchronize()?;
    assert!(text(one.elapsed_time(&plain)).contains("enable_timing"));
    assert!(text(one.elapsed_time(&two)).contains("recorded first"));
    // One that was not recorded is done, and nothing waits for it.
    assert!(two.query()?);
    two.synchronize()?;
    two.wait()?;
    // The mock holds work back until somebody asks for it.
    two.record()?;
    assert!(text(one.elapsed_time(&two)).contains("reached first"));
    two.synchronize()?;
    assert!(one.elapsed_time(&two)? >= 0.0);
    let other = timed(Device::Custom(1))?;
    other.record()?;
    assert!(text(one.elapsed_time(&other)).contains("mock:0 and mock:1"));
    let e = one.record_on(&default_stream(Device::Custom(1))?);
    let e = e.expect_err("another device's").to_string();
    assert!(
        e.contains("an event of mock:0 cannot be recorded in stream 0 of mock:1"),
        "{e}"
    );
    assert!(Stream::new(Device::Meta).is_err() && Event::new(Device::Cuda(0)).is_err());
    Ok(())
}

#[test]
fn an_event_of_another_device_is_waited_for_by_the_caller() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = Tensor::ones([64, 64], DType::F32, Device::Custom(1))?;
    let y = x.mm(&x)?;
    let event = default_stream(Device::Custom(1))?.record_event()?;
    default_stream(d)?.wait_event(&event)?;
    assert!(event.query()?);
    assert_eq!(y.sum()?.item::<f32>()?, 64.0 * 64.0 * 64.0);
    Ok(())
}

#[test]
fn an_error_comes_at_the_wait_for_its_stream_once() -> Result<()> {
    let (d, _, _alone) = alone();
    let (good, bad) = (Stream::new(d)?, Stream::new(d)?);
    let (_y, line) = stream(&bad, || bad_index(d))?;
    stream(&good, || tensor![1.0].to_device(d)?.add(1.0))?;
    good.synchronize()?;
    default_stream(d)?.synchronize()?;
    // Asking is no wait, and a measuring wait leaves errors where they are.
    wait_idle(d)?;
    assert!(bad.query()?);
    let e = bad
        .synchronize()
        .expect_err("7 is out of range")
        .to_string();
    assert!(e.contains("index_select") && e.contains('7'), "{e}");
    assert!(e.contains(&format!("streams.rs:{line}")), "{e}");
    bad.synchronize()?;
    // An event of the stream reports as well.
    let event = stream(&bad, || {
        bad_index(d)?;
        bad.record_event()
    })?;
    assert!(event.synchronize().is_err());
    synchronize(d)
}

#[test]
fn asking_again_and_again_ends() -> Result<()> {
    let (d, _, _alone) = alone();
    let side = Stream::new(d)?;
    for _ in 0..3 {
        let y = stream(&side, || {
            let x = Tensor::ones([200, 200], DType::F32, d)?;
            x.mm(&x)
        })?;
        let event = side.record_event()?;
        let began = Instant::now();
        while !side.query()? {
            assert!(began.elapsed() < Duration::from_secs(60), "never done");
            std::thread::yield_now();
        }
        assert!(event.query()?);
        assert_eq!(stream(&side, || y.sum())?.item::<f32>()?, 200f32.powi(3));
    }
    Ok(())
}

#[test]
fn a_device_has_so_many_streams_of_a_priority() -> Result<()> {
    let (.., _alone) = alone();
    let d = Device::Custom(1);
    let urgent = |priority: i32| Stream::new_with(d, StreamOptions::new().priority(priority));
    let first: Vec<Stream> = (0..32).map(|_| urgent(-9)).collect::<Result<_>>()?;
    let again: Vec<Stream> = (0..32).map(|_| urgent(-5)).collect::<Result<_>>()?;
    assert_eq!(first, again);
    let ids: std::collections::HashSet<u32> = first.iter().map(Stream::stream_id).collect();
    assert_eq!(ids.len(), 32);
    assert!(!first.contains(&urgent(0)?));
    Ok(())
}

#[test]
fn a_lost_device_makes_nobody_wait() -> Result<()> {
    let (d, _, _alone) = alone();
    let side = Stream::new(d)?;
    let event = side.record_event()?;
    let mock = mock(0).expect("registered");
    mock.inject(Injection::Lost);
    let lost = |r: Result<()>| matches!(r, Err(TorshError::DeviceLost(_)));
    assert!(lost(side.synchronize()) && lost(side.query().map(drop)));
    assert!(lost(event.query().map(drop)) && lost(event.synchronize()));
    assert!(lost(wait_idle(d)) && lost(side.record_event().map(drop)));
    mock.restore();
    Ok(())
}
