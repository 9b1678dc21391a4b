//! Checks that every engine passes: each operation with sizes that differ and are 0, many operations under way, messages
//! out of order, communicators of some ranks, large messages, and the errors that an engine can see.
//!
//! All ranks call `check` together.

mod collectives;
mod errors;
mod messages;
pub mod tools;

use torsh_core::{Result, TorshError};
use torsh_distributed::engine::{Comm, Engine, FakeEngine, Threads, ThreadsEngine, start_mpi};

use tools::Rank;

/// What was checked.
#[derive(Clone, Debug)]
pub struct Checked {
    /// This rank; of threads the last.
    pub rank: usize,
    /// How many ranks there are.
    pub ranks: usize,
    /// What carries the bytes.
    pub engine: String,
}

/// Runs the checks on an engine of its own, by its name; `ranks` says how many `threads` or `fake` have. MPI starts once
/// in a process, so nothing else can use it afterwards.
///
/// # Errors
/// What differs, with the check's name. The job is aborted then, so that no rank waits.
pub fn run(engine: &str, ranks: usize) -> Result<Checked> {
    match engine {
        "threads" => {
            let threads = Threads::new(ranks);
            let all = (0..ranks).map(|rank| {
                let threads = threads.clone();
                on_a_thread(
                    move || Ok(Box::new(ThreadsEngine::new(&threads, rank))),
                    check,
                )
            });
            // All begin before the first is waited for.
            let all: Vec<_> = all.collect();
            let mut last = Err(TorshError::invalid(
                "engine suite",
                "there is no world of 0 ranks",
            ));
            let mut problem = None;
            for wait in all {
                last = wait();
                if last.is_err() && problem.is_none() {
                    problem = last.err();
                    last = Err(TorshError::failed("engine suite", "another rank failed"));
                }
            }
            problem.map_or(last, Err)
        }
        "fake" => {
            let start = move || Ok(Box::new(FakeEngine::new(ranks / 2, ranks)) as _);
            on_a_thread(start, check_fake)()
        }
        "mpi-abi" | "mpi" => {
            let name = engine.to_string();
            let absent = || {
                let text = "this program was built without the feature `mpi`";
                Err(TorshError::unavailable("engine suite", text))
            };
            on_a_thread(move || start_mpi(&name).unwrap_or_else(absent), check)()
        }
        _ => Err(
            TorshError::invalid("engine suite", format!("there is no engine {engine:?}"))
                .with_hint("Engines are mpi-abi, mpi, threads and fake."),
        ),
    }
}

/// Starts an engine on a thread of its own, as a communication thread does, and runs checks there. The result is waited
/// for by calling what comes back.
fn on_a_thread(
    start: impl FnOnce() -> Result<Box<dyn Engine>> + Send + 'static,
    check: fn(&mut dyn Engine) -> Result<()>,
) -> impl FnOnce() -> Result<Checked> {
    let thread = std::thread::spawn(move || {
        let mut engine = start()?;
        let checked = Checked {
            rank: engine.rank(),
            ranks: engine.world_size(),
            engine: engine.describe(),
        };
        match check(&mut *engine) {
            Ok(()) => engine.finish().map(|()| checked),
            Err(e) => {
                // Said before the others end: MPI's abort does not come back.
                eprintln!("rank {}: {e}", checked.rank);
                engine.abort(1);
                Err(e)
            }
        }
    });
    move || match thread.join() {
        Ok(result) => result,
        Err(_) => Err(TorshError::failed("engine suite", "a rank panicked")),
    }
}

/// What `fake` can be asked: it moves no bytes.
fn check_fake(engine: &mut dyn Engine) -> Result<()> {
    let world: Vec<usize> = (0..engine.world_size()).collect();
    let mut all = Rank::new(engine, Comm::WORLD, &world);
    all.named("what engines refuse", errors::refused)
}

/// All checks, on an engine with nothing under way.
pub fn check(engine: &mut dyn Engine) -> Result<()> {
    let (rank, n) = (engine.rank(), engine.world_size());
    if rank >= n || engine.describe().is_empty() {
        return Err(TorshError::failed(
            "engine suite",
            format!("rank {rank} of {n}, {:?}", engine.describe()),
        ));
    }
    let world: Vec<usize> = (0..n).collect();
    let mut all = Rank::new(engine, Comm::WORLD, &world);
    values(&mut all, "all ranks")?;
    all.named("64 MiB messages", messages::large)?;
    all.named("what engines refuse", errors::refused)?;
    all.named("messages of other sizes", errors::sizes)?;
    all.named("a ring after errors", messages::ring)?;
    groups(engine)
}

/// Checks of the values that every operation brings.
fn values(r: &mut Rank<'_>, which: &str) -> Result<()> {
    let checks: [(&str, fn(&mut Rank<'_>) -> Result<()>); 13] = [
        ("a ring of messages", messages::ring),
        ("a message to itself", messages::own),
        ("messages with one tag", messages::in_order),
        ("tags out of order", messages::by_tag),
        ("receives from any rank", messages::any_source),
        ("many messages under way", messages::many),
        ("broadcast", collectives::broadcast),
        ("all_to_all", collectives::all_to_all),
        ("all_gather", collectives::all_gather),
        ("gather", collectives::gather),
        ("scatter", collectives::scatter),
        ("many collectives under way", collectives::many),
        ("all_reduce", collectives::all_reduce),
    ];
    for (name, f) in checks {
        r.named(&format!("{name}, {which}"), f)?;
    }
    Ok(())
}

/// Communicators of some ranks, in another order, two at once, and again with the same key.
fn groups(engine: &mut dyn Engine) -> Result<()> {
    let (rank, n) = (engine.rank(), engine.world_size());
    let backwards: Vec<usize> = (0..n).rev().collect();
    let same_parity: Vec<usize> = (0..n).filter(|r| r % 2 == rank % 2).collect();
    let alone = vec![rank];
    let reversed = engine.new_comm(&backwards, 1)?;
    let parity = engine.new_comm(&same_parity, 2 + rank as u32 % 2)?;
    let single = engine.new_comm(&alone, 4)?;
    if reversed == parity || parity == single || single == Comm::WORLD {
        return Err(TorshError::failed(
            "engine suite",
            "two communicators are the same",
        ));
    }
    for (comm, ranks, which) in [
        (reversed, &backwards, "all ranks backwards"),
        (parity, &same_parity, "every second rank"),
        (single, &alone, "one rank"),
    ] {
        values(&mut Rank::new(engine, comm, ranks), which)?;
    }
    tools::named("two communicators at once", || {
        messages::two_at_once(
            engine,
            (Comm::WORLD, &(0..n).collect::<Vec<_>>()),
            (reversed, &backwards),
        )
    })?;
    engine.free_comm(parity)?;
    engine.free_comm(single)?;
    let again = engine.new_comm(&same_parity, 2 + rank as u32 % 2)?;
    Rank::new(engine, again, &same_parity).named("a communicator made again", messages::ring)?;
    engine.free_comm(again)?;
    engine.free_comm(reversed)?;
    if engine.free_comm(reversed).is_ok() {
        return Err(TorshError::failed(
            "engine suite",
            "a communicator was freed twice",
        ));
    }
    Ok(())
}
