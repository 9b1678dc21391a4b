//! Timelines for `chrome://tracing` and Perfetto.

use serde_json::json;
use torsh_tensor::Result;

use crate::build::Builder;
use crate::gpt::ModelPlan;
use crate::model::Cluster;
use crate::options::{Parallelism, StepOptions};
use crate::simulate::{Kind, Random};

/// The first step of a simulation as a Chrome trace, of the first `ranks` ranks that are simulated (with tensor parallel one
/// stands for its group).
///
/// # Errors
/// As [`simulate`](crate::simulate()).
///
/// ```
/// use torsh_planner::{Cluster, ModelPlan, Parallelism, StepOptions, chrome_trace};
///
/// # fn main() -> torsh_tensor::Result<()> {
/// let model = ModelPlan::named("gpt-125m")?;
/// let options = StepOptions { batch: 4, ..StepOptions::default() };
/// let text = chrome_trace(&model, &Cluster::default(), Parallelism::data(4), &options, 2)?;
/// assert!(text.contains("\"block 11 backward, micro-batch 0\""));
/// # Ok(()) }
/// ```
#[torsh_tensor::names_caller]
pub fn chrome_trace(
    model: &ModelPlan,
    cluster: &Cluster,
    mesh: Parallelism,
    options: &StepOptions,
    ranks: usize,
) -> Result<String> {
    let mut builder = Builder::new(model, cluster, mesh, options)?;
    builder.at_full_size(1_500_000);
    let slow = builder.slow(&mut Random(options.seed));
    let tasks = builder.build(&slow)?;
    let line = tasks.run()?;
    let shown = (tasks.ranks.min(ranks)) as u32;
    let mut events = Vec::new();
    for rank in 0..shown {
        let meta = |name: &str, tid: usize, value: String| json!({"ph": "M", "pid": rank, "tid": tid, "name": name, "args": {"name": value}});
        events.push(meta(
            "process_name",
            0,
            format!("rank {}", rank as usize * mesh.tensor),
        ));
        events.push(meta("thread_name", 0, "compute".into()));
        for (i, l) in cluster.levels.iter().enumerate() {
            events.push(meta("thread_name", i + 1, l.name.clone()));
        }
        let last = cluster.levels.len() + 1;
        events.push(meta("thread_name", last, "messages between stages".into()));
    }
    for (i, t) in tasks.tasks.iter().enumerate() {
        let layer = |what: u32| model.layers.get(what as usize).map_or("", |l| &l.name);
        let name = match t.kind {
            Kind::Optimizer | Kind::Shared => t.kind.name().to_string(),
            Kind::Send => format!("send after part {}, micro-batch {}", t.what, t.micro),
            Kind::Reduce if mesh.shard == 1 => format!("all_reduce of bucket {}", t.what),
            _ => format!(
                "{} {}, micro-batch {}",
                layer(t.what),
                t.kind.name(),
                t.micro
            ),
        };
        for k in 0..t.count {
            let rank = t.first + k * t.stride;
            if rank < shown && t.seconds > 0.0 {
                events.push(json!({
                    "ph": "X", "pid": rank, "tid": t.lane, "name": name, "cat": t.kind.name(),
                    "ts": line.start[i] * 1e6, "dur": (line.end[i] - line.start[i]) * 1e6,
                }));
            }
        }
    }
    Ok(json!({"traceEvents": events, "displayTimeUnit": "ms"}).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_lie_within_the_step() -> Result<()> {
        let model = ModelPlan::gpt("small", 512, 128, 4, 4, 64);
        let mesh: Parallelism = "shard=2,tp=2,pp=2".parse().unwrap();
        let options = StepOptions {
            batch: 8,
            ..StepOptions::default()
        };
        let text = chrome_trace(&model, &Cluster::default(), mesh, &options, 3)?;
        let v: serde_json::Value = serde_json::from_str(&text).unwrap();
        let events = v["traceEvents"].as_array().unwrap();
        let of = |cat: &str| events.iter().filter(|e| e["cat"] == cat).count();
        // Three ranks, of which two hold the first stage: four micro-batches of its layers each.
        let parts = crate::build::stages(&model, 2)?;
        let layers = |r: std::ops::Range<usize>| {
            let flops = |&l: &usize| model.layers[l].flops > 0.0;
            r.filter(flops).count()
        };
        let expected = 4 * (2 * layers(parts[0].clone()) + layers(parts[1].clone()));
        assert_eq!((of("forward"), of("backward")), (expected, expected));
        assert!(of("all_gather") > 0 && of("all_reduce (tensor)") > 0 && of("send") > 0);
        assert!(events.iter().all(|e| e["pid"].as_u64().unwrap() < 3));
        Ok(())
    }
}
