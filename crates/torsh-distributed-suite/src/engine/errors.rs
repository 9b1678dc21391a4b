//! Checks of what engines refuse.

use torsh_core::{DType, Result, TorshError};
use torsh_distributed::engine::{Comm, EngineOp, MOST_BYTES, Part, Request};

use super::tools::{Rank, bytes, empty, part, parts, same, wrong};

/// Refuses a call that was not refused, or whose error does not say `says`.
fn refuses<T>(what: &str, says: &str, result: Result<T>) -> Result<()> {
    match result {
        Ok(_) => Err(wrong(format!("{what} gave no error"))),
        Err(e) if e.to_string().contains(says) => Ok(()),
        Err(e) => Err(wrong(format!(
            "the error of {what} does not say {says:?}: {e}"
        ))),
    }
}

/// Arguments that no operation takes. They fail in the call, so that nothing is under way afterwards.
pub(super) fn refused(r: &mut Rank<'_>) -> Result<()> {
    let (rank, n) = (r.rank, r.n);
    let mut memory = empty(16);
    let p = part(&mut memory);
    let absent = format!("no rank {n}");
    refuses(
        "a message to a rank that is not there",
        &absent,
        r.send(p, n, 0),
    )?;
    refuses(
        "a receive from a rank that is not there",
        &absent,
        r.receive(p, Some(n), 0),
    )?;
    refuses(
        "a broadcast from a rank that is not there",
        &absent,
        r.broadcast(p, n),
    )?;
    refuses(
        "a gather to a rank that is not there",
        &absent,
        r.gather(p, &[], n),
    )?;
    let too_many = vec![p; n + 1];
    let right = vec![p; n];
    refuses(
        "one part too many",
        "parts to send",
        r.all_to_all(&too_many, &right),
    )?;
    refuses(
        "one part too many",
        "parts to receive",
        r.all_gather(p, &too_many),
    )?;
    let mut other = empty(8);
    let mut unequal = vec![p; n];
    unequal[rank] = part(&mut other);
    refuses(
        "an own part of two sizes",
        "to itself",
        r.all_to_all(&right, &unequal),
    )?;
    refuses(
        "an own part of two sizes",
        "to itself",
        r.all_gather(p, &unequal),
    )?;
    let long = Part {
        ptr: p.ptr,
        bytes: MOST_BYTES + 1,
    };
    refuses("a part that is too long", "in pieces", r.send(long, 0, 0))?;
    let odd = part(&mut memory[..6]);
    refuses(
        "half a number",
        "whole number",
        r.all_reduce(odd, DType::F32, EngineOp::Sum),
    )?;
    refuses(
        "a dtype that engines do not have",
        "bfloat16",
        r.all_reduce(p, DType::BF16, EngineOp::Sum),
    )?;
    refuses(
        "an unknown request",
        "not under way",
        r.poll(Request(u64::MAX)),
    )?;
    let engine = r.engine();
    // SAFETY: the call is refused.
    let result = unsafe { engine.send(Comm(9999), p, 0, 0) };
    refuses("an unknown communicator", "9999", result)?;
    refuses(
        "a group with a rank that is not there",
        "no rank",
        engine.new_comm(&[rank, n], 0),
    )?;
    refuses(
        "a group with a rank twice",
        "twice",
        engine.new_comm(&[rank, rank], 0),
    )?;
    if n > 1 {
        refuses(
            "another's group",
            "does not belong",
            engine.new_comm(&[(rank + 1) % n], 0),
        )?;
    }
    refuses(
        "the end of the world",
        "stays",
        engine.free_comm(Comm::WORLD),
    )
}

/// Messages of another size than the receiver's memory: an error there, and all goes on.
pub(super) fn sizes(r: &mut Rank<'_>) -> Result<()> {
    let (rank, n, next, last) = (r.rank, r.n, r.next(), r.last());
    // Open MPI 4 copies a large message straight from the sender's memory, all of it also where it is too long, and tells
    // nobody when a rank sends to itself. The layer above the engines compares sizes before it sends data.
    let unsound = r.engine().describe().starts_with("Open MPI v4");
    let sizes: &[usize] = match (unsound, n) {
        (true, 1) => &[],
        (true, _) => &[100],
        _ => &[100, 200_000],
    };
    for len in sizes.iter().copied() {
        let mut out = bytes(rank, next, 3, len);
        let mut into = empty(len);
        let receive = r.receive(part(&mut into[..len / 2]), Some(last), 6)?;
        let send = r.send(part(&mut out), next, 6)?;
        let received = r.wait(receive);
        r.wait(send)?;
        refuses("a message that is too long", "", received)?;
        // Nothing beyond the part was written.
        same(
            "what follows the part",
            &into[len / 2..],
            &empty(len - len / 2),
        )?;
        // A shorter message is none.
        let receive = r.receive(part(&mut into), Some(last), 6)?;
        let send = r.send(part(&mut out[..len / 2]), next, 6)?;
        r.wait_all([receive, send])?;
        same(
            "a shorter message",
            &into[..len / 2],
            &bytes(last, rank, 3, len)[..len / 2],
        )?;
    }
    // All but the first rank expect one byte more of the first than it sends, and it one less of them: all are errors.
    // Engines see it up to 8 ranks (`all_gather` of more is MPI's own).
    if !(2..=8).contains(&n) || std::env::var_os("TORSH_MPI_PAIRS").is_some() {
        return Ok(());
    }
    let expected = |from: usize, at: usize| match (from == 0, at == 0) {
        (true, false) => 33,
        (false, true) => 31,
        _ => 32,
    };
    let mut out = bytes(rank, 95, 0, 32);
    let mut into: Vec<_> = (0..n).map(|from| empty(expected(from, rank))).collect();
    let request = r.all_gather(part(&mut out), &parts(&mut into))?;
    let result: Result<(), TorshError> = r.wait(request);
    refuses("an all_gather of unequal sizes", "", result)
}
