//! What profiles show of communication.

use serde_json::Value;
use torsh_nn::{Linear, Module, ModuleExt};
use torsh_profiler::{EventKind, Profile, profile, record_function};
use torsh_tensor::{Result, tensor, zeros};

use crate::{DistributedDataParallel, ReduceOp, fake, spawn};

fn exported(prof: &Profile, rank: usize) -> Value {
    let name = format!("torsh-lane-{}-rank{rank}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    prof.export_chrome_trace(&path).expect("a file");
    let text = std::fs::read_to_string(&path).expect("a file");
    std::fs::remove_file(&path).expect("a file");
    serde_json::from_str(&text).expect("a trace")
}

/// The events of a phase and a category; all categories where it is empty.
fn of<'a>(trace: &'a Value, phase: &str, cat: &str) -> Vec<&'a Value> {
    let all = trace["traceEvents"].as_array().expect("a list");
    all.iter()
        .filter(|e| e["ph"] == phase && (cat.is_empty() || e["cat"] == cat))
        .collect()
}

#[test]
fn a_profile_has_a_lane_of_communication() {
    spawn(2, |g| {
        g.barrier()?; // Ahead of the profile, so not in it.
        let prof = profile(|| {
            record_function("step", || {
                g.all_reduce_(&tensor![1.0f32, 2.0, 3.0], ReduceOp::Sum)?;
                let pair = g.new_group(&[1, 0])?.expect("both ranks");
                pair.broadcast_(&zeros(&[1 << 20]), 0)
            })
        })?;
        g.barrier()?;
        let trace = exported(&prof, g.rank());
        let lanes: Vec<&Value> = of(&trace, "M", "")
            .into_iter()
            .filter(|e| e["name"] == "thread_name" && e["args"]["name"] == "communication")
            .collect();
        assert_eq!(lanes.len(), 1);
        let events = of(&trace, "X", "communication");
        let step = of(&trace, "X", "user_annotation")[0];
        let number = |v: &Value| v.as_f64().expect("a number");
        let end = |e: &Value| number(&e["ts"]) + number(&e["dur"]);
        let mut before = number(&step["ts"]);
        for e in &events {
            assert_eq!(e["tid"], lanes[0]["tid"]);
            assert_eq!(e["pid"], step["pid"]);
            // One after the other, as they were called, within the range that waited for them.
            assert!(number(&e["ts"]) >= before && end(e) <= end(step), "{e}");
            before = end(e);
            assert_eq!(e["args"]["State"], "done");
            assert_eq!(e["args"]["Rank"], g.rank());
            let caller = e["args"]["Caller"].as_str().expect("a text");
            assert!(caller.contains("failure/tests.rs:"), "{caller}");
        }
        let text = |e: &Value| -> (String, String, String, u64, u64) {
            let args = &e["args"];
            let word = |v: &Value| v.as_str().expect("a text").to_string();
            let bytes = |v: &Value| v.as_u64().expect("bytes");
            (
                word(&e["name"]),
                word(&args["Collective name"]),
                word(&args["Process Group Name"]),
                bytes(&args["Bytes Sent"]),
                bytes(&args["Bytes Received"]),
            )
        };
        let seen: Vec<_> = events.iter().map(|e| text(e)).collect();
        // Rank 1 of the world is the pair's first.
        let (sent, received) = if g.rank() == 1 {
            (4 << 20, 0)
        } else {
            (0, 4 << 20)
        };
        let expected = [
            (
                "all_reduce",
                "all_reduce(sum) #2 float32[3]",
                "world",
                12,
                12,
            ),
            ("new_group", "new_group([1, 0]) #3", "world", 0, 0),
            (
                "broadcast",
                "broadcast(src 0) #1 float32[1048576]",
                "world/3",
                sent,
                received,
            ),
        ]
        .map(|(kind, text, group, sent, received)| {
            (
                format!("threads:{kind}"),
                text.to_string(),
                group.to_string(),
                sent,
                received,
            )
        });
        assert_eq!(seen, expected);
        // The caller's time is not counted twice.
        let averages = prof.key_averages();
        let row = averages.get("threads:broadcast").expect("a row");
        assert_eq!((row.count, row.self_cpu_time_total), (1, 0.0));
        assert!(row.cpu_time_total > 0.0);
        Ok(())
    })
    .expect("both ranks have a lane");
}

#[test]
fn gradients_travel_while_the_backward_pass_goes_on() {
    spawn(2, |g| {
        let model = DistributedDataParallel::new(Linear::new(64, 64), ())?;
        let x = zeros(&[4, 64]);
        model.forward(&x)?.sum()?.backward()?;
        model.zero_grad();
        let prof = profile(|| model.forward(&x)?.sum()?.backward())?;
        let events = prof.events();
        let sent: Vec<_> = events
            .iter()
            .filter_map(|e| Some((e.name.as_str(), e.kind, e.communication.as_ref()?)))
            .collect();
        // New buckets after the first step, then the only one.
        let names: Vec<&str> = sent.iter().map(|s| s.0).collect();
        assert_eq!(names, ["threads:broadcast", "threads:all_reduce"]);
        assert!(sent.iter().all(|s| s.1 == EventKind::Communication));
        assert_eq!(sent[1].2.bytes_sent, 4 * (64 * 64 + 64));
        assert_eq!(sent[1].2.group, g.name());
        Ok(())
    })
    .expect("a step of each rank");
}

#[test]
fn a_profile_of_several_ranks_has_a_lane_for_each() -> Result<()> {
    let prof = Profile::builder().build();
    prof.run(|| {
        spawn(2, |g| {
            prof.attach(|| g.all_reduce_(&tensor![1.0], ReduceOp::Sum).map(drop))
        })
        .map(drop)
    })?;
    let trace = exported(&prof, 9);
    let mut names: Vec<&str> = of(&trace, "M", "")
        .into_iter()
        .filter(|e| e["name"] == "thread_name")
        .filter_map(|e| e["args"]["name"].as_str())
        .filter(|n| n.starts_with("communication"))
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["communication of rank 0", "communication of rank 1"]
    );
    assert_eq!(of(&trace, "X", "communication").len(), 2);
    Ok(())
}

#[test]
fn operations_that_are_under_way_last_until_the_end() -> Result<()> {
    spawn(2, |g| {
        if g.rank() == 1 {
            g.recv_(&zeros(&[1]), 0)?;
            return g.all_reduce_(&tensor![1.0], ReduceOp::Sum).map(drop);
        }
        let t = tensor![1.0];
        let mut work = None;
        let prof = profile(|| {
            work = Some(g.all_reduce_async(&t, ReduceOp::Sum)?);
            Ok(())
        })?;
        let end = prof.events()[0].end_us;
        g.send(&zeros(&[1]), 1)?;
        work.expect("an operation").wait()?;
        let e = &prof.events()[0];
        assert_eq!(e.end_us, end);
        let c = e.communication.as_ref().expect("communication");
        assert_eq!((c.state.as_str(), c.bytes_sent), ("done", 4));
        // What is called later is not in it.
        assert_eq!(prof.events().len(), 1);
        Ok(())
    })?;
    // A group that only counts the traffic.
    let (group, t) = (fake(1, 8)?, tensor![1.0]);
    let prof = profile(|| group.all_reduce_(&t, ReduceOp::Sum))?;
    assert_eq!(prof.events()[0].name, "fake:all_reduce");
    Ok(())
}
