//! The communicators of an engine, which it gets for a call whose arguments are checked.

use torsh_core::{DType, Result, TorshError};

use super::{Comm, MOST_BYTES, Part};

/// A communicator: its ranks, and what the engine keeps of it.
pub(super) struct Member<T> {
    /// The ranks' numbers in the world.
    pub(super) ranks: Vec<usize>,
    /// This rank, counted within the communicator.
    pub(super) rank: usize,
    pub(super) own: T,
}

impl<T> Member<T> {
    pub(super) fn size(&self) -> usize {
        self.ranks.len()
    }

    /// Refuses a rank that the communicator does not have.
    fn check_rank(&self, op: &'static str, rank: usize) -> Result<()> {
        if rank < self.size() {
            return Ok(());
        }
        Err(TorshError::invalid(
            op,
            format!(
                "there is no rank {rank} among the {} ranks of this communicator",
                self.size()
            ),
        )
        .with_hint("Ranks count from 0 within the group."))
    }

    /// Refuses parts that are not one of each rank.
    fn check_parts(&self, op: &'static str, parts: &[Part], what: &'static str) -> Result<()> {
        if parts.len() != self.size() {
            return Err(TorshError::invalid(
                op,
                format!(
                    "there are {} parts to {what}, but {} ranks",
                    parts.len(),
                    self.size()
                ),
            )
            .with_hint("Give one part for each rank; a part may have 0 bytes."));
        }
        parts.iter().try_for_each(|p| check_part(op, *p))
    }

    /// Refuses an own part that has another size on its way out than on its way in.
    fn check_own(&self, op: &'static str, send: Part, receive: Part) -> Result<()> {
        if send.bytes == receive.bytes {
            return Ok(());
        }
        Err(TorshError::invalid(
            op,
            format!(
                "rank {} sends {} bytes to itself, but receives {}",
                self.rank, send.bytes, receive.bytes
            ),
        ))
    }
}

/// The communicators that an engine has made.
pub(super) struct Members<T> {
    list: Vec<Option<Member<T>>>,
}

impl<T> Members<T> {
    /// All ranks, as [`Comm::WORLD`].
    pub(super) fn new(world_size: usize, rank: usize, own: T) -> Members<T> {
        Members {
            list: vec![Some(Member {
                ranks: (0..world_size).collect(),
                rank,
                own,
            })],
        }
    }

    pub(super) fn get(&self, op: &'static str, comm: Comm) -> Result<&Member<T>> {
        self.list
            .get(comm.0 as usize)
            .and_then(Option::as_ref)
            .ok_or_else(|| unknown(op, comm))
    }

    pub(super) fn get_mut(&mut self, op: &'static str, comm: Comm) -> Result<&mut Member<T>> {
        self.list
            .get_mut(comm.0 as usize)
            .and_then(Option::as_mut)
            .ok_or_else(|| unknown(op, comm))
    }

    /// The communicator of a message to a rank.
    pub(super) fn send(&self, comm: Comm, part: Part, to: usize) -> Result<&Member<T>> {
        const OP: &str = "send";
        check_part(OP, part)?;
        let c = self.get(OP, comm)?;
        c.check_rank(OP, to)?;
        Ok(c)
    }

    /// The communicator of a message from a rank, or from any.
    pub(super) fn receive(
        &self,
        comm: Comm,
        part: Part,
        from: Option<usize>,
    ) -> Result<&Member<T>> {
        const OP: &str = "receive";
        check_part(OP, part)?;
        let c = self.get(OP, comm)?;
        from.map_or(Ok(()), |r| c.check_rank(OP, r))?;
        Ok(c)
    }

    /// The communicator of a broadcast.
    pub(super) fn broadcast(&self, comm: Comm, part: Part, root: usize) -> Result<&Member<T>> {
        const OP: &str = "broadcast";
        check_part(OP, part)?;
        let c = self.get(OP, comm)?;
        c.check_rank(OP, root)?;
        Ok(c)
    }

    /// The communicator of an exchange of parts with all ranks.
    pub(super) fn all_to_all(
        &self,
        comm: Comm,
        send: &[Part],
        receive: &[Part],
    ) -> Result<&Member<T>> {
        const OP: &str = "all_to_all";
        let c = self.get(OP, comm)?;
        c.check_parts(OP, send, "send")?;
        c.check_parts(OP, receive, "receive")?;
        c.check_own(OP, send[c.rank], receive[c.rank])?;
        Ok(c)
    }

    /// The communicator of a gather to all ranks.
    pub(super) fn all_gather(
        &self,
        comm: Comm,
        send: Part,
        receive: &[Part],
    ) -> Result<&Member<T>> {
        const OP: &str = "all_gather";
        check_part(OP, send)?;
        let c = self.get(OP, comm)?;
        c.check_parts(OP, receive, "receive")?;
        c.check_own(OP, send, receive[c.rank])?;
        Ok(c)
    }

    /// The communicator of a gather to one rank.
    pub(super) fn gather(
        &self,
        comm: Comm,
        send: Part,
        receive: &[Part],
        root: usize,
    ) -> Result<&Member<T>> {
        const OP: &str = "gather";
        check_part(OP, send)?;
        let c = self.get(OP, comm)?;
        c.check_rank(OP, root)?;
        if c.rank == root {
            c.check_parts(OP, receive, "receive")?;
            c.check_own(OP, send, receive[root])?;
        }
        Ok(c)
    }

    /// The communicator of a scatter from one rank.
    pub(super) fn scatter(
        &self,
        comm: Comm,
        send: &[Part],
        receive: Part,
        root: usize,
    ) -> Result<&Member<T>> {
        const OP: &str = "scatter";
        check_part(OP, receive)?;
        let c = self.get(OP, comm)?;
        c.check_rank(OP, root)?;
        if c.rank == root {
            c.check_parts(OP, send, "send")?;
            c.check_own(OP, send[root], receive)?;
        }
        Ok(c)
    }

    /// The communicator of a reduction.
    pub(super) fn all_reduce(&self, comm: Comm, part: Part, dtype: DType) -> Result<&Member<T>> {
        check_reduction(part, dtype)?;
        self.get("all_reduce", comm)
    }

    /// Numbers are never used again, so a stale [`Comm`] is an error and not another group.
    pub(super) fn add(&mut self, ranks: &[usize], rank: usize, own: T) -> Comm {
        self.list.push(Some(Member {
            ranks: ranks.to_vec(),
            rank,
            own,
        }));
        Comm((self.list.len() - 1) as u32)
    }

    pub(super) fn remove(&mut self, op: &'static str, comm: Comm) -> Result<Member<T>> {
        if comm == Comm::WORLD {
            return Err(TorshError::invalid(
                op,
                "the communicator of all ranks stays",
            ));
        }
        self.list
            .get_mut(comm.0 as usize)
            .and_then(Option::take)
            .ok_or_else(|| unknown(op, comm))
    }

    /// What the engine keeps of each communicator but the world, which are forgotten.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.list
            .iter_mut()
            .skip(1)
            .filter_map(|m| m.take().map(|m| m.own))
    }
}

#[cold]
fn unknown(op: &'static str, comm: Comm) -> TorshError {
    TorshError::invalid(
        op,
        format!(
            "communicator {} was never made, or is freed already",
            comm.0
        ),
    )
}

/// The place of `rank` among the `ranks` of a new communicator.
pub(super) fn place_of(ranks: &[usize], rank: usize, world_size: usize) -> Result<usize> {
    const OP: &str = "new_comm";
    for (i, r) in ranks.iter().enumerate() {
        if *r >= world_size {
            return Err(TorshError::invalid(
                OP,
                format!("there is no rank {r}: the world has {world_size} ranks"),
            ));
        }
        if ranks[..i].contains(r) {
            return Err(TorshError::invalid(
                OP,
                format!("rank {r} is in {ranks:?} twice"),
            ));
        }
    }
    ranks.iter().position(|r| *r == rank).ok_or_else(|| {
        TorshError::invalid(
            OP,
            format!("rank {rank} makes a communicator of {ranks:?}, to which it does not belong"),
        )
        .with_hint("The members alone call it.")
    })
}

/// Refuses a part that is too long for one operation.
fn check_part(op: &'static str, part: Part) -> Result<()> {
    if part.bytes <= MOST_BYTES {
        return Ok(());
    }
    Err(TorshError::invalid(
        op,
        format!(
            "a part has {} bytes, more than the {MOST_BYTES} that one operation moves",
            part.bytes
        ),
    )
    .with_hint("Send it in pieces."))
}

/// Refuses a reduction that engines do not make, or of bytes that are no whole elements.
fn check_reduction(part: Part, dtype: DType) -> Result<()> {
    const OP: &str = "all_reduce";
    check_part(OP, part)?;
    if !reduced(dtype) {
        return Err(
            TorshError::dtype(OP, format!("engines do not reduce {}", dtype.name()))
                .with_hint("Use ReduceMode::Ordered, which reduces every dtype."),
        );
    }
    if !part.bytes.is_multiple_of(dtype.size()) {
        return Err(TorshError::invalid(
            OP,
            format!(
                "{} bytes are no whole number of elements of {}",
                part.bytes,
                dtype.name()
            ),
        ));
    }
    Ok(())
}

/// The dtypes that engines reduce: those that MPI has with the same meaning.
pub(super) fn reduced(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::F32 | DType::F64
    )
}

/// A request that is not under way.
#[cold]
pub(super) fn no_request() -> TorshError {
    TorshError::invalid(
        "poll",
        "this request is not under way: it was done already, or another engine made it",
    )
}

/// Copies one part of this rank to another of its own.
///
/// # Safety
/// The memory of `from` is readable, that of `to` writable; they are the same or apart.
pub(super) unsafe fn copy_own(from: Part, to: Part) {
    let bytes = from.bytes.min(to.bytes);
    if bytes > 0 && from.ptr != to.ptr {
        // SAFETY: the caller promises both; they do not overlap, as they are not the same.
        unsafe { std::ptr::copy_nonoverlapping(from.ptr, to.ptr, bytes) };
    }
}
