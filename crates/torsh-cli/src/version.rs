//! What `torsh --version` prints.

use serde_json::json;

/// Prints the version, or all that a report of a fault should say of program and machine.
pub fn print(verbose: bool, json: bool) {
    let version = env!("CARGO_PKG_VERSION");
    match (verbose, json) {
        (false, false) => println!("torsh {version}"),
        (false, true) => println!("{}", json!({ "version": version })),
        (true, false) => println!("{}", torsh::info()),
        (true, true) => println!("{}", as_json(&torsh::info())),
    }
}

fn as_json(info: &torsh::Info) -> serde_json::Value {
    let p = &info.processor;
    let devices = info
        .devices
        .iter()
        .map(|d| json!({ "device": d.device.to_string(), "name": d.name, "memory": d.memory }));
    let variables = info
        .variables
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)));
    json!({
        "version": info.version,
        "profile": info.profile,
        "features": info.features,
        "system": info.system,
        "target": info.target,
        "processor": {
            "name": p.name,
            "level": p.level.to_string(),
            "level_of_the_processor": info.level.to_string(),
            "bf16_dot": p.bf16_dot,
            "bf16_tiles": p.bf16_tiles,
            "cores": p.cores,
            "caches": [p.l1, p.l2, p.l3],
        },
        "threads": info.threads,
        "devices": devices.collect::<Vec<_>>(),
        "allocator": info.allocator,
        "mpi": info.mpi,
        "variables": variables.collect::<serde_json::Map<_, _>>(),
    })
}
