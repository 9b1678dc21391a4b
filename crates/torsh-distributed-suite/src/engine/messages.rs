//! Checks of messages.

use torsh_core::Result;
use torsh_distributed::engine::{Comm, Engine};

use super::tools::{Rank, SIZES, bytes, empty, part, same, wrong};

/// Each rank sends to the next, in all sizes.
pub(super) fn ring(r: &mut Rank<'_>) -> Result<()> {
    let (rank, next, last) = (r.rank, r.next(), r.last());
    for (case, len) in SIZES.into_iter().enumerate() {
        let mut out = bytes(rank, next, case, len);
        let mut into = empty(len);
        let receive = r.receive(part(&mut into), Some(last), 5)?;
        let send = r.send(part(&mut out), next, 5)?;
        r.wait_all([send, receive])?;
        same(
            &format!("{len} bytes of rank {last}"),
            &into,
            &bytes(last, rank, case, len),
        )?;
    }
    Ok(())
}

/// A rank's message to itself, which is shorter than the memory for it.
pub(super) fn own(r: &mut Rank<'_>) -> Result<()> {
    for len in [0, 100, 100_000] {
        let mut out = bytes(r.rank, r.rank, 1, len);
        let mut into = empty(len + 10);
        let rank = r.rank;
        let send = r.send(part(&mut out), rank, 9)?;
        let receive = r.receive(part(&mut into), Some(rank), 9)?;
        r.wait_all([receive, send])?;
        same("a message to itself", &into[..len], &out)?;
        same("what follows it", &into[len..], &empty(10))?;
    }
    Ok(())
}

/// Messages with one tag arrive as they were sent, small ones after large ones too.
pub(super) fn in_order(r: &mut Rank<'_>) -> Result<()> {
    let (rank, next, last) = (r.rank, r.next(), r.last());
    let len = |i: usize| if i.is_multiple_of(3) { 200_000 } else { i };
    let mut out: Vec<_> = (0..12).map(|i| bytes(rank, next, i, len(i))).collect();
    let mut into: Vec<_> = (0..12).map(|i| empty(len(i))).collect();
    let mut requests = Vec::new();
    for m in &mut out {
        requests.push(r.send(part(m), next, 2)?);
    }
    for m in &mut into {
        requests.push(r.receive(part(m), Some(last), 2)?);
    }
    r.wait_all(requests)?;
    for (i, m) in into.iter().enumerate() {
        same(&format!("message {i}"), m, &bytes(last, rank, i, len(i)))?;
    }
    Ok(())
}

/// Receives with other tags than the first message's do not get it.
pub(super) fn by_tag(r: &mut Rank<'_>) -> Result<()> {
    let (rank, next, last) = (r.rank, r.next(), r.last());
    let tags = [0u32, 7, 1, 1000, 16_000];
    let len = 9000;
    let mut out: Vec<_> = (0..tags.len()).map(|i| bytes(rank, next, i, len)).collect();
    let mut into: Vec<_> = tags.iter().map(|_| empty(len)).collect();
    let mut requests = Vec::new();
    for (m, tag) in out.iter_mut().zip(tags) {
        requests.push(r.send(part(m), next, tag)?);
    }
    for (m, tag) in into.iter_mut().zip(tags).rev() {
        requests.push(r.receive(part(m), Some(last), tag)?);
    }
    r.wait_all(requests.into_iter().rev())?;
    for (i, m) in into.iter().enumerate() {
        same(&format!("tag {}", tags[i]), m, &bytes(last, rank, i, len))?;
    }
    Ok(())
}

/// The first rank takes what comes from any; the message says from whom it is.
pub(super) fn any_source(r: &mut Rank<'_>) -> Result<()> {
    for (case, len) in [16, 50_000].into_iter().enumerate() {
        let tag = 30 + case as u32;
        if r.rank > 0 {
            let rank = r.rank;
            let mut out = bytes(rank, 0, case, len);
            out[0] = rank as u8;
            let send = r.send(part(&mut out), 0, tag)?;
            r.wait(send)?;
            continue;
        }
        let mut seen = vec![false; r.n];
        for _ in 1..r.n {
            let mut into = empty(len);
            let receive = r.receive(part(&mut into), None, tag)?;
            r.wait(receive)?;
            let from = into[0] as usize;
            if from >= r.n || std::mem::replace(&mut seen[from], true) {
                return Err(wrong(format!(
                    "a message of rank {from} came twice or never was"
                )));
            }
            same(
                &format!("rank {from}'s message"),
                &into[1..],
                &bytes(from, 0, case, len)[1..],
            )?;
        }
    }
    Ok(())
}

/// 32 messages to each rank at once, polled from the last to the first.
pub(super) fn many(r: &mut Rank<'_>) -> Result<()> {
    const EACH: usize = 32;
    let (rank, n) = (r.rank, r.n);
    let len = |i: usize| i * 700;
    let mut out = Vec::new();
    let mut into = Vec::new();
    for other in 0..n {
        for i in 0..EACH {
            out.push(bytes(rank, other, i, len(i)));
            into.push(empty(len(i)));
        }
    }
    let mut requests = Vec::new();
    for (at, m) in into.iter_mut().enumerate() {
        requests.push(r.receive(part(m), Some(at / EACH), (at % EACH) as u32)?);
    }
    for (at, m) in out.iter_mut().enumerate() {
        requests.push(r.send(part(m), at / EACH, (at % EACH) as u32)?);
    }
    // One poll of each in turn, so that most of them wait while others are done.
    let mut problem = None;
    while !requests.is_empty() {
        let mut left = Vec::new();
        for request in requests.into_iter().rev() {
            match r.poll(request) {
                Ok(true) => {}
                Ok(false) => left.push(request),
                Err(e) => problem = Some(e),
            }
        }
        requests = left;
        std::thread::yield_now();
    }
    if let Some(problem) = problem {
        return Err(problem);
    }
    for (at, m) in into.iter().enumerate() {
        let (from, i) = (at / EACH, at % EACH);
        same(
            &format!("message {i} of rank {from}"),
            m,
            &bytes(from, rank, i, len(i)),
        )?;
    }
    Ok(())
}

/// 64 MiB to the next rank, and from the first to all.
pub(super) fn large(r: &mut Rank<'_>) -> Result<()> {
    const LEN: usize = 64 << 20;
    let (rank, next, last) = (r.rank, r.next(), r.last());
    let mut out = bytes(rank, next, 64, LEN);
    let mut into = empty(LEN);
    let receive = r.receive(part(&mut into), Some(last), 1)?;
    let send = r.send(part(&mut out), next, 1)?;
    r.wait_all([receive, send])?;
    let first = bytes(last, rank, 64, LEN);
    same("64 MiB", &into, &first)?;
    let root = r.n - 1;
    if rank == root {
        into.copy_from_slice(&out);
    }
    let all = r.broadcast(part(&mut into), root)?;
    r.wait(all)?;
    same("64 MiB to all", &into, &bytes(root, 0, 64, LEN))
}

/// The same ranks and tags in two communicators: messages do not mix.
pub(super) fn two_at_once(
    engine: &mut dyn Engine,
    (one, one_ranks): (Comm, &[usize]),
    (two, two_ranks): (Comm, &[usize]),
) -> Result<()> {
    const LEN: usize = 20_000;
    let mut requests = Vec::new();
    let (mut a_out, mut b_out, mut a_in, mut b_in) =
        (empty(LEN), empty(LEN), empty(LEN), empty(LEN));
    let mut a = Rank::new(engine, one, one_ranks);
    let (a_rank, a_next, a_last) = (a.rank, a.next(), a.last());
    a_out.copy_from_slice(&bytes(a_rank, a_next, 100, LEN));
    requests.push(a.send(part(&mut a_out), a_next, 4)?);
    let mut b = Rank::new(engine, two, two_ranks);
    let (b_rank, b_next, b_last) = (b.rank, b.next(), b.last());
    b_out.copy_from_slice(&bytes(b_rank, b_next, 200, LEN));
    requests.push(b.send(part(&mut b_out), b_next, 4)?);
    requests.push(b.receive(part(&mut b_in), Some(b_last), 4)?);
    let mut a = Rank::new(engine, one, one_ranks);
    requests.push(a.receive(part(&mut a_in), Some(a_last), 4)?);
    a.wait_all(requests)?;
    same(
        "the first communicator",
        &a_in,
        &bytes(a_last, a_rank, 100, LEN),
    )?;
    same(
        "the second communicator",
        &b_in,
        &bytes(b_last, b_rank, 200, LEN),
    )
}
