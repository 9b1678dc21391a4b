//! The algorithms: what each rank sends and receives in which order.
//!
//! `last` says that nothing follows within the operation, so that the next operation may start as soon as this one has
//! posted what it sends and receives.

use std::collections::VecDeque;

use torsh_tensor::{DType, Result, TorshError};

use crate::comm::{Call, Flight, Memory, PIECE, Payload, SMALL, all_done};
use crate::engine::EngineOp;
use crate::reduce::ReduceOp;

/// The bytes of a large reduction that are under way together: while one chunk is summed, the next one travels.
const CHUNK: usize = 4 << 20;

/// The reduction of an engine that makes (most of) one of ours.
fn engine_op(op: ReduceOp) -> Option<EngineOp> {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => Some(EngineOp::Sum),
        ReduceOp::Product => Some(EngineOp::Product),
        ReduceOp::Min => Some(EngineOp::Min),
        ReduceOp::Max => Some(EngineOp::Max),
        _ => None,
    }
}

/// Rank `r`'s piece of `total` elements among `n` ranks: start and length.
fn piece(total: usize, n: usize, r: usize) -> (usize, usize) {
    let start = |r: usize| (total as u128 * r as u128 / n as u128) as usize;
    (start(r), start(r + 1) - start(r))
}

/// The messages of all ranks, with `own` in this rank's place.
fn in_order(
    messages: Vec<Option<crate::comm::Message>>,
    own: &Option<Memory>,
) -> Vec<Option<Memory>> {
    messages
        .into_iter()
        .map(|m| match m {
            Some(m) => Some(m.payload()),
            None => own.clone(),
        })
        .collect()
}

impl Call {
    /// Compares what all ranks call, where an operation would not notice by itself.
    pub(crate) async fn compare_all(&self) -> Result<()> {
        if self.group.debug {
            self.exchange(Payload::Nothing, false).await?;
        }
        Ok(())
    }

    /// Reduces memory in place on all ranks.
    pub(crate) async fn all_reduce(
        &self,
        memory: &Memory,
        dtype: DType,
        op: ReduceOp,
        by_engine: bool,
        last: bool,
    ) -> Result<()> {
        let (n, me) = (self.size(), self.rank());
        if n == 1 {
            return memory.reduce(op, dtype, &[None]);
        }
        if by_engine && let Some(e) = engine_op(op).filter(|e| self.engine_reduces(dtype, *e)) {
            if self.few() || self.group.debug {
                self.exchange(Payload::Nothing, false).await?;
            }
            let flights = self.engine_all_reduce(memory, dtype, e)?;
            if last {
                self.pass();
            }
            all_done(flights).await?;
            if op == ReduceOp::Avg {
                memory.divide(dtype, n)?;
            }
            return Ok(());
        }
        if memory.bytes() <= SMALL {
            let messages = self.exchange(Payload::Same(memory), last).await?;
            return memory.reduce(op, dtype, &in_order(messages, &None));
        }
        self.exchange(Payload::Nothing, false).await?;
        let mut gathers: Vec<Flight> = Vec::new();
        let mut going: VecDeque<(Vec<Memory>, Vec<Memory>, Vec<Flight>)> = VecDeque::new();
        let mut start = 0;
        while start < memory.bytes() || !going.is_empty() {
            if start < memory.bytes() {
                let chunk = memory.at(start, CHUNK);
                start += chunk.bytes();
                going.push_back(self.spread(&chunk, dtype)?);
                if going.len() == 1 && start < memory.bytes() {
                    continue;
                }
            }
            let Some((pieces, mut received, flights)) = going.pop_front() else {
                break;
            };
            all_done(flights).await?;
            let inputs: Vec<Option<Memory>> = received
                .drain(..)
                .enumerate()
                .map(|(r, m)| (r != me).then_some(m))
                .collect();
            pieces[me].reduce(op, dtype, &inputs)?;
            drop(inputs);
            gathers.extend(self.all_gather_parts(&pieces[me], &pieces)?);
        }
        if last {
            self.pass();
        }
        all_done(gathers).await
    }

    /// Sends each rank its piece of a chunk. The pieces, and where those of the others arrive.
    fn spread(
        &self,
        chunk: &Memory,
        dtype: DType,
    ) -> Result<(Vec<Memory>, Vec<Memory>, Vec<Flight>)> {
        let (n, me, size) = (self.size(), self.rank(), dtype.size());
        let elements = chunk.bytes() / size;
        let pieces: Vec<Memory> = (0..n)
            .map(|r| piece(elements, n, r))
            .map(|(start, len)| chunk.at(start * size, len * size))
            .collect();
        let (send, receive) = self.sides(&pieces, pieces[me].bytes());
        let flights = self.all_to_all(&send, &receive)?;
        Ok((pieces, receive, flights))
    }

    /// What is sent and received where each rank gets a piece of each: nothing from and to oneself.
    fn sides(&self, pieces: &[Memory], own_bytes: usize) -> (Vec<Memory>, Vec<Memory>) {
        let me = self.rank();
        let mut send = pieces.to_vec();
        send[me] = Memory::nothing(0);
        let receive = (0..pieces.len())
            .map(|r| match r == me {
                true => Memory::nothing(0),
                false => self.scratch(own_bytes),
            })
            .collect();
        (send, receive)
    }

    /// Reduces memory of all ranks into that of `dst`. The others' stays as it is.
    pub(crate) async fn reduce(
        &self,
        memory: &Memory,
        dtype: DType,
        op: ReduceOp,
        dst: usize,
    ) -> Result<()> {
        let (n, me) = (self.size(), self.rank());
        if n == 1 {
            return memory.reduce(op, dtype, &[None]);
        }
        self.compare_all().await?;
        if memory.bytes() <= SMALL {
            if me != dst {
                let flights = self.post_first(dst, memory)?;
                self.pass();
                return all_done(flights).await;
            }
            let messages = self.firsts(memory.bytes(), true).await?;
            return memory.reduce(op, dtype, &in_order(messages, &None));
        }
        self.exchange(Payload::Nothing, false).await?;
        let mut start = 0;
        let mut last: Vec<Flight> = Vec::new();
        while start < memory.bytes() {
            let chunk = memory.at(start, CHUNK);
            start += chunk.bytes();
            let (pieces, received, flights) = self.spread(&chunk, dtype)?;
            all_done(flights).await?;
            let own = match me == dst {
                true => pieces[me].clone(),
                false => self.scratch(pieces[me].bytes()),
            };
            let inputs: Vec<Option<Memory>> = received
                .into_iter()
                .enumerate()
                .map(|(r, m)| match (r == me, me == dst) {
                    (false, _) => Some(m),
                    (true, true) => None,
                    (true, false) => Some(pieces[me].clone()),
                })
                .collect();
            own.reduce(op, dtype, &inputs)?;
            if me != dst {
                last.extend(self.send_data(&own, dst)?);
            } else {
                for r in (0..n).filter(|&r| r != me) {
                    last.extend(self.receive_data(&pieces[r], r)?);
                }
            }
        }
        self.pass();
        all_done(last).await
    }

    /// The first messages of all other ranks to this one.
    async fn firsts(
        &self,
        expected: usize,
        last: bool,
    ) -> Result<Vec<Option<crate::comm::Message>>> {
        let (n, me) = (self.size(), self.rank());
        let mut wanted = Vec::with_capacity(n);
        for r in (0..n).filter(|&r| r != me) {
            wanted.push((r, self.want_first(r)?));
        }
        if last {
            self.pass();
        }
        let mut messages: Vec<Option<crate::comm::Message>> = (0..n).map(|_| None).collect();
        for (r, first) in wanted {
            messages[r] = Some(self.read_first(r, first, expected).await?);
        }
        Ok(messages)
    }

    /// Sends memory of `src` to all.
    pub(crate) async fn broadcast(&self, memory: &Memory, src: usize, last: bool) -> Result<()> {
        let (n, me) = (self.size(), self.rank());
        if n == 1 {
            return Ok(());
        }
        self.compare_all().await?;
        let small = memory.bytes() <= SMALL;
        if me == src {
            let mut flights = Vec::with_capacity(n);
            for r in (0..n).filter(|&r| r != me) {
                flights.extend(self.post_first(r, memory)?);
            }
            if !small {
                flights.extend(self.broadcast_parts(memory, src)?);
            }
            if last {
                self.pass();
            }
            return all_done(flights).await;
        }
        let first = self.want_first(src)?;
        if small && last {
            self.pass();
        }
        let message = self.read_first(src, first, memory.bytes()).await?;
        if small {
            memory.copy_from(&message.payload());
            return Ok(());
        }
        let flights = self.broadcast_parts(memory, src)?;
        if last {
            self.pass();
        }
        all_done(flights).await
    }

    /// Sends memory to all and receives that of each; the sizes of all parts are known to all ranks.
    pub(crate) async fn all_gather(
        &self,
        parts: &[Memory],
        input: &Memory,
        last: bool,
    ) -> Result<()> {
        let me = self.rank();
        if !parts[me].is_same(input) {
            parts[me].copy_from(input);
        }
        let most = parts.iter().map(Memory::bytes).max().unwrap_or(0);
        if most <= SMALL {
            let messages = self.exchange(Payload::Same(&parts[me]), last).await?;
            for (part, message) in parts.iter().zip(&messages) {
                if let Some(m) = message {
                    part.copy_from(&m.payload());
                }
            }
            return Ok(());
        }
        self.exchange(Payload::Nothing, false).await?;
        let mut flights = Vec::new();
        for start in (0..most).step_by(PIECE) {
            let pieces: Vec<Memory> = parts.iter().map(|p| p.at(start, PIECE)).collect();
            flights.extend(self.all_gather_parts(&pieces[me], &pieces)?);
        }
        if last {
            self.pass();
        }
        all_done(flights).await
    }

    /// Reduces the blocks of all ranks' inputs; each gets its own in `out`.
    pub(crate) async fn reduce_scatter(
        &self,
        out: &Memory,
        blocks: &[Memory],
        dtype: DType,
        op: ReduceOp,
        last: bool,
    ) -> Result<()> {
        let me = self.rank();
        let own = |start: usize, len: usize| {
            let (block, out) = (blocks[me].at(start, len), out.at(start, len));
            (!block.is_same(&out)).then_some(block)
        };
        if out.bytes() <= SMALL {
            let messages = self.exchange(Payload::Each(blocks), last).await?;
            return out.reduce(op, dtype, &in_order(messages, &own(0, out.bytes())));
        }
        self.exchange(Payload::Nothing, false).await?;
        let size = dtype.size();
        let step = (CHUNK / self.size() / size).max(1) * size;
        let mut going: VecDeque<(usize, Vec<Memory>, Vec<Flight>)> = VecDeque::new();
        let mut start = 0;
        while start < out.bytes() || !going.is_empty() {
            if start < out.bytes() {
                let pieces: Vec<Memory> = blocks.iter().map(|b| b.at(start, step)).collect();
                let (send, receive) = self.sides(&pieces, pieces[me].bytes());
                let flights = self.all_to_all(&send, &receive)?;
                going.push_back((start, receive, flights));
                start += pieces[me].bytes();
                if last && start >= out.bytes() {
                    self.pass();
                }
                if going.len() == 1 && start < out.bytes() {
                    continue;
                }
            }
            let Some((at, received, flights)) = going.pop_front() else {
                break;
            };
            all_done(flights).await?;
            let piece = out.at(at, step);
            let inputs: Vec<Option<Memory>> = received
                .into_iter()
                .enumerate()
                .map(|(r, m)| match r == me {
                    true => own(at, piece.bytes()),
                    false => Some(m),
                })
                .collect();
            piece.reduce(op, dtype, &inputs)?;
        }
        Ok(())
    }

    /// Sends one memory to each rank and receives one of each; a rank's sizes are known to it alone.
    pub(crate) async fn swap(&self, send: &[Memory], receive: &[Memory]) -> Result<()> {
        let (n, me) = (self.size(), self.rank());
        self.compare_all().await?;
        let large = |m: &Memory| match m.bytes() > SMALL {
            true => m.clone(),
            false => Memory::nothing(0),
        };
        let mut flights = Vec::with_capacity(n);
        let mut wanted = Vec::with_capacity(n);
        for r in (1..n).map(|k| (me + n - k) % n) {
            wanted.push((r, self.want_first(r)?));
        }
        for r in (1..n).map(|k| (me + k) % n) {
            flights.extend(self.post_first(r, &send[r])?);
        }
        let (out, into): (Vec<Memory>, Vec<Memory>) = (
            send.iter().map(large).collect(),
            receive.iter().map(large).collect(),
        );
        let bytes = |all: &[Memory]| -> usize {
            let others = all.iter().enumerate().filter(|(r, _)| *r != me);
            others.map(|(_, m)| m.bytes()).sum()
        };
        self.count(bytes(&out), bytes(&into));
        flights.extend(self.messages(&out, &into)?);
        self.pass();
        receive[me].copy_from(&send[me]);
        for (r, first) in wanted {
            let message = self.read_first(r, first, receive[r].bytes()).await?;
            if message.total != receive[r].bytes() {
                return Err(self.wrong_size(r, message.total, receive[r].bytes()));
            }
            if message.total <= SMALL {
                receive[r].copy_from(&message.payload());
            }
        }
        all_done(flights).await
    }

    fn wrong_size(&self, from: usize, there: usize, here: usize) -> TorshError {
        TorshError::shape(
            self.ticket.kind,
            format!(
                "rank {from} sends {there} bytes, and rank {} receives {here}",
                self.rank()
            ),
        )
        .with_hint("compare shapes, splits and dtypes of the two ranks")
    }

    /// Collects memory of all ranks at `dst`, which has a part for each.
    pub(crate) async fn gather(&self, input: &Memory, parts: &[Memory], dst: usize) -> Result<()> {
        let (n, me) = (self.size(), self.rank());
        self.compare_all().await?;
        if me != dst {
            let mut flights = self.post_first(dst, input)?;
            if input.bytes() > SMALL {
                flights.extend(self.send_data(input, dst)?);
            }
            self.pass();
            return all_done(flights).await;
        }
        let mut wanted = Vec::with_capacity(n);
        let mut flights = Vec::new();
        for r in (0..n).filter(|&r| r != me) {
            wanted.push((r, self.want_first(r)?));
            if parts[r].bytes() > SMALL {
                flights.extend(self.receive_data(&parts[r], r)?);
            }
        }
        self.pass();
        parts[me].copy_from(input);
        for (r, first) in wanted {
            let message = self.read_first(r, first, parts[r].bytes()).await?;
            parts[r].copy_from(&message.payload());
        }
        all_done(flights).await
    }

    /// Gives each rank its part of what `src` has.
    pub(crate) async fn scatter(&self, out: &Memory, parts: &[Memory], src: usize) -> Result<()> {
        let (n, me) = (self.size(), self.rank());
        self.compare_all().await?;
        if me == src {
            let mut flights = Vec::new();
            for r in (0..n).filter(|&r| r != me) {
                flights.extend(self.post_first(r, &parts[r])?);
                if parts[r].bytes() > SMALL {
                    flights.extend(self.send_data(&parts[r], r)?);
                }
            }
            self.pass();
            out.copy_from(&parts[me]);
            return all_done(flights).await;
        }
        let first = self.want_first(src)?;
        let mut flights = Vec::new();
        if out.bytes() > SMALL {
            flights.extend(self.receive_data(out, src)?);
        }
        self.pass();
        let message = self.read_first(src, first, out.bytes()).await?;
        out.copy_from(&message.payload());
        all_done(flights).await
    }

    /// Bytes in memory.
    pub(crate) fn memory_of(&self, bytes: &[u8]) -> Memory {
        let memory = self.scratch(bytes.len());
        memory.write(0, bytes);
        memory
    }

    /// The bytes of all ranks, of any number.
    pub(crate) async fn all_gather_bytes(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let me = self.rank();
        let memory = self.memory_of(&own);
        if !memory.is_present() && !own.is_empty() {
            // Only the traffic is counted: the others are taken to have the same.
            self.exchange(Payload::Same(&memory), true).await?;
            return Ok(vec![own; self.size()]);
        }
        let messages = self.exchange(Payload::Same(&memory), false).await?;
        let total = |r: usize| messages[r].as_ref().map_or(own.len(), |m| m.total);
        let most = (0..self.size()).map(total).max().unwrap_or(0);
        if most <= SMALL {
            return Ok(messages
                .iter()
                .map(|m| {
                    m.as_ref()
                        .map_or_else(|| own.clone(), |m| m.payload().to_vec())
                })
                .collect());
        }
        let parts: Vec<Memory> = (0..self.size())
            .map(|r| match r == me {
                true => memory.clone(),
                false => self.scratch(total(r)),
            })
            .collect();
        let mut flights = Vec::new();
        for start in (0..most).step_by(PIECE) {
            let pieces: Vec<Memory> = parts.iter().map(|p| p.at(start, PIECE)).collect();
            flights.extend(self.all_gather_parts(&pieces[me], &pieces)?);
        }
        self.pass();
        all_done(flights).await?;
        Ok(parts.iter().map(Memory::to_vec).collect())
    }

    /// The bytes of `src`.
    pub(crate) async fn broadcast_bytes(
        &self,
        own: Option<Vec<u8>>,
        src: usize,
    ) -> Result<Vec<u8>> {
        let (n, me) = (self.size(), self.rank());
        self.compare_all().await?;
        if me == src {
            let own = own.unwrap_or_default();
            let memory = self.memory_of(&own);
            let mut flights = Vec::new();
            for r in (0..n).filter(|&r| r != me) {
                flights.extend(self.post_first(r, &memory)?);
            }
            if memory.bytes() > SMALL && n > 1 {
                flights.extend(self.broadcast_parts(&memory, src)?);
            }
            self.pass();
            all_done(flights).await?;
            return Ok(own);
        }
        let first = self.want_first(src)?;
        let message = self.read_first(src, first, 0).await?;
        if message.total <= SMALL {
            return Ok(message.payload().to_vec());
        }
        let memory = self.scratch(message.total);
        all_done(self.broadcast_parts(&memory, src)?).await?;
        Ok(memory.to_vec())
    }

    /// The bytes of all ranks, at `dst`.
    pub(crate) async fn gather_bytes(&self, own: Vec<u8>, dst: usize) -> Result<Vec<Vec<u8>>> {
        let (n, me) = (self.size(), self.rank());
        self.compare_all().await?;
        if me != dst {
            let memory = self.memory_of(&own);
            let mut flights = self.post_first(dst, &memory)?;
            if memory.bytes() > SMALL {
                flights.extend(self.send_data(&memory, dst)?);
            }
            self.pass();
            all_done(flights).await?;
            return Ok(Vec::new());
        }
        let messages = self.firsts(own.len(), false).await?;
        let mut flights = Vec::new();
        let mut parts: Vec<Option<Memory>> = Vec::with_capacity(n);
        for (r, m) in messages.iter().enumerate() {
            parts.push(match m {
                None => None,
                Some(m) if m.total <= SMALL => Some(m.payload()),
                Some(m) => {
                    let part = self.scratch(m.total);
                    flights.extend(self.receive_data(&part, r)?);
                    Some(part)
                }
            });
        }
        self.pass();
        all_done(flights).await?;
        let there = |m: Option<Memory>| match m {
            Some(m) if m.is_present() || m.bytes() == 0 => m.to_vec(),
            _ => own.clone(),
        };
        Ok(parts.into_iter().map(there).collect())
    }

    /// This rank's bytes of those that `src` has.
    pub(crate) async fn scatter_bytes(
        &self,
        all: Option<Vec<Vec<u8>>>,
        src: usize,
    ) -> Result<Vec<u8>> {
        let me = self.rank();
        self.compare_all().await?;
        if me == src {
            let mut all = all.unwrap_or_default();
            let mut flights = Vec::new();
            for (r, bytes) in all.iter().enumerate().filter(|(r, _)| *r != me) {
                let memory = self.memory_of(bytes);
                flights.extend(self.post_first(r, &memory)?);
                if memory.bytes() > SMALL {
                    flights.extend(self.send_data(&memory, r)?);
                }
            }
            self.pass();
            all_done(flights).await?;
            return Ok(all.get_mut(me).map(std::mem::take).unwrap_or_default());
        }
        let first = self.want_first(src)?;
        let message = self.read_first(src, first, 0).await?;
        if message.total <= SMALL {
            return Ok(message.payload().to_vec());
        }
        let memory = self.scratch(message.total);
        all_done(self.receive_data(&memory, src)?).await?;
        Ok(memory.to_vec())
    }
}
