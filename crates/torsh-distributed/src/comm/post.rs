//! What operations send and receive: first messages, which say what the operation is, and data.

use torsh_tensor::{DType, Result, TorshError};

use super::{Call, Flight, Memory, all_done};
use crate::engine::{EngineOp, Part};

/// Tags. Messages of users come after these.
pub(crate) const CONTROL: u32 = 1;
const FIRST: u32 = 2;
const DATA: u32 = 3;
pub(crate) const USER: u32 = 16;

/// The most bytes that travel within a first message.
pub(crate) const SMALL: usize = 16 << 10;
/// What a first message says besides: the bytes in all, and the operation.
const HEADER: usize = 256;
/// The largest piece of one request.
pub(crate) const PIECE: usize = 64 << 20;
/// Up to so many ranks every rank writes to every other; beyond, the engine's collectives do.
const FEW: usize = 16;

/// What an operation sends to the others in its first messages.
pub(crate) enum Payload<'a> {
    Nothing,
    Same(&'a Memory),
    /// One for each rank, of equal sizes.
    Each(&'a [Memory]),
}

impl Payload<'_> {
    fn to(&self, rank: usize) -> Memory {
        match self {
            Payload::Nothing => Memory::nothing(0),
            Payload::Same(m) => (*m).clone(),
            Payload::Each(all) => all.get(rank).cloned().unwrap_or_else(|| Memory::nothing(0)),
        }
    }
}

/// A first message.
pub(crate) struct Message {
    memory: Memory,
    /// The bytes in all, of which this has those up to [`SMALL`].
    pub(crate) total: usize,
}

impl Message {
    /// What came with it.
    pub(crate) fn payload(&self) -> Memory {
        match self.total <= SMALL {
            true => self.memory.at(HEADER, self.total),
            false => Memory::nothing(0),
        }
    }
}

/// The bytes that identify an operation, so that a text that is cut is compared as a whole.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn header(text: &str, total: usize) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&(total as u64).to_ne_bytes());
    bytes[8..16].copy_from_slice(&hash(text).to_ne_bytes());
    let most = HEADER - 18;
    let mut len = text.len().min(most);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    bytes[16..18].copy_from_slice(&(len as u16).to_ne_bytes());
    bytes[18..18 + len].copy_from_slice(&text.as_bytes()[..len]);
    bytes
}

/// The hash and the text of a header.
fn read_header(bytes: &[u8]) -> (u64, String) {
    let mut hash = [0; 8];
    hash.copy_from_slice(&bytes[8..16]);
    let len = usize::from(u16::from_ne_bytes([bytes[16], bytes[17]])).min(HEADER - 18);
    let text = String::from_utf8_lossy(&bytes[18..18 + len]).into_owned();
    (u64::from_ne_bytes(hash), text)
}

impl Call {
    /// Whether every rank writes to every other.
    pub(crate) fn few(&self) -> bool {
        self.size() <= FEW
    }

    /// Sends bytes to a rank of the group, in pieces.
    fn send(&self, memory: &Memory, to: usize, tag: u32) -> Result<Vec<Flight>> {
        let pieces = |f: &mut dyn FnMut(Memory) -> Result<Flight>| -> Result<Vec<Flight>> {
            let n = memory.bytes().div_ceil(PIECE).max(1);
            (0..n).map(|i| f(memory.at(i * PIECE, PIECE))).collect()
        };
        pieces(&mut |piece| {
            let part = piece.part();
            self.cx.start(vec![piece], |e| {
                // SAFETY: the flight keeps the memory, which the operation does not write to until it is done.
                unsafe { e.send(self.group.comm, part, to, tag) }
            })
        })
    }

    /// Receives bytes from a rank of the group, in pieces.
    fn receive(&self, memory: &Memory, from: usize, tag: u32) -> Result<Vec<Flight>> {
        let n = memory.bytes().div_ceil(PIECE).max(1);
        (0..n)
            .map(|i| {
                let piece = memory.at(i * PIECE, PIECE);
                let part = piece.part();
                self.cx.start(vec![piece], |e| {
                    // SAFETY: the flight keeps the memory, which nobody uses until it is done: it is scratch, or a
                    // storage that the operation holds for writing.
                    unsafe { e.receive(self.group.comm, part, Some(from), tag) }
                })
            })
            .collect()
    }

    /// A first message of this operation.
    fn compose(&self, text: &str, payload: &Memory) -> Memory {
        let total = payload.bytes();
        let inside = if total <= SMALL { total } else { 0 };
        let message = self.scratch(HEADER + inside);
        message.write(0, &header(text, total));
        message.at(HEADER, inside).copy_from(payload);
        message
    }

    /// Sends a first message to one rank, with the payload where it is small.
    pub(crate) fn post_first(&self, to: usize, payload: &Memory) -> Result<Vec<Flight>> {
        let message = self.compose(&self.ticket.text, payload);
        self.count(message.bytes() - HEADER, 0);
        self.send(&message, to, FIRST)
    }

    /// Receives the first message of one rank. The second value is awaited by [`Call::read_first`].
    pub(crate) fn want_first(&self, from: usize) -> Result<(Memory, Vec<Flight>)> {
        let memory = self.scratch(HEADER + SMALL);
        let flights = self.receive(&memory, from, FIRST)?;
        Ok((memory, flights))
    }

    /// Waits for a first message, which must be of the same operation. `expected` bytes are taken for granted where the
    /// rank only counts the traffic.
    pub(crate) async fn read_first(
        &self,
        from: usize,
        (memory, flights): (Memory, Vec<Flight>),
        expected: usize,
    ) -> Result<Message> {
        all_done(flights).await?;
        let message = self.message(memory, expected);
        if let Some(theirs) = self.differs(&message) {
            return Err(self.mismatch((from, &theirs), (self.rank(), &self.ticket.text)));
        }
        self.count(0, message.payload().bytes());
        Ok(message)
    }

    fn message(&self, memory: Memory, expected: usize) -> Message {
        if !memory.is_present() {
            let memory = Memory::nothing(HEADER + expected);
            let total = expected;
            return Message { memory, total };
        }
        let total = memory.word(0) as usize;
        Message { memory, total }
    }

    /// What another operation than this one a message is of.
    fn differs(&self, message: &Message) -> Option<String> {
        if !message.memory.is_present() || message.memory.word(8) == hash(&self.ticket.text) {
            return None;
        }
        Some(read_header(&message.memory.at(0, HEADER).to_vec()).1)
    }

    /// The error of all ranks where two called different operations.
    fn mismatch(&self, a: (usize, &str), b: (usize, &str)) -> TorshError {
        TorshError::invalid(
            self.ticket.kind,
            format!(
                "the ranks of group {} called different operations: rank {} {}, rank {} {}",
                self.group.name, a.0, a.1, b.0, b.1
            ),
        )
        .with_hint("all ranks of a group must call the same operations, with the same shapes and dtypes, in the same order")
    }

    /// Compares what all ranks called. All ranks see the same two.
    fn compare(&self, messages: &[Option<Message>]) -> Result<()> {
        let text = |r: usize| match messages.get(r).and_then(Option::as_ref) {
            Some(m) if m.memory.is_present() => read_header(&m.memory.at(0, HEADER).to_vec()),
            _ => (hash(&self.ticket.text), self.ticket.text.to_string()),
        };
        // Mostly all are equal, which needs no texts.
        if messages.iter().flatten().all(|m| self.differs(m).is_none()) {
            return Ok(());
        }
        let first = text(0);
        match (1..self.size())
            .map(|r| (r, text(r)))
            .find(|(_, t)| t.0 != first.0)
        {
            Some((r, other)) => Err(self.mismatch((0, &first.1), (r, &other.1))),
            None => Ok(()),
        }
    }

    /// Each rank sends every other a first message, and compares those that come. The operation's last exchange may let
    /// the next operation start. The own entry is `None`.
    pub(crate) async fn exchange(
        &self,
        payload: Payload<'_>,
        last: bool,
    ) -> Result<Vec<Option<Message>>> {
        let (n, me) = (self.size(), self.rank());
        if n == 1 {
            if last {
                self.pass();
            }
            return Ok(vec![None]);
        }
        let others = || (0..n).filter(|&r| r != me);
        if !self.few() {
            return self.exchange_many(payload, last).await;
        }
        let mut wanted = Vec::with_capacity(n - 1);
        for r in others() {
            wanted.push((r, self.want_first(r)?));
        }
        let mut sends = Vec::with_capacity(n - 1);
        let mut same: Option<Memory> = None;
        for r in others() {
            let message = match (&payload, &same) {
                (Payload::Each(_), _) | (_, None) => {
                    self.compose(&self.ticket.text, &payload.to(r))
                }
                (_, Some(m)) => m.clone(),
            };
            self.count(message.bytes() - HEADER, 0);
            sends.extend(self.send(&message, r, FIRST)?);
            same = Some(message);
        }
        if last {
            self.pass();
        }
        let mut messages: Vec<Option<Message>> = (0..n).map(|_| None).collect();
        for (r, (memory, flights)) in wanted {
            all_done(flights).await?;
            let message = self.message(memory, payload.to(me).bytes());
            self.count(0, message.payload().bytes());
            messages[r] = Some(message);
        }
        self.compare(&messages)?;
        all_done(sends).await?;
        Ok(messages)
    }

    /// [`Call::exchange`] by collectives of the engine.
    async fn exchange_many(
        &self,
        payload: Payload<'_>,
        last: bool,
    ) -> Result<Vec<Option<Message>>> {
        let (n, me) = (self.size(), self.rank());
        let own = payload.to(me);
        let heads = self.scratch(n * HEADER);
        heads.write(me * HEADER, &header(&self.ticket.text, own.bytes()));
        let parts: Vec<Memory> = (0..n).map(|r| heads.at(r * HEADER, HEADER)).collect();
        let flights = self.engine_all_gather(&parts[me], &parts)?;
        if last && matches!(payload, Payload::Nothing) {
            self.pass();
        }
        all_done(flights).await?;
        let mut messages: Vec<Option<Message>> = parts
            .iter()
            .enumerate()
            .map(|(r, m)| (r != me).then(|| self.message(m.clone(), own.bytes())))
            .collect();
        self.compare(&messages)?;
        if matches!(payload, Payload::Nothing) {
            return Ok(messages);
        }
        // Each rank's bytes, where they are small, behind a header of their own.
        let inside = |total: usize| if total <= SMALL { total } else { 0 };
        let mut whole = Vec::with_capacity(n);
        for (r, m) in messages.iter_mut().enumerate() {
            let Some(m) = m else {
                whole.push(own.at(0, inside(own.bytes())));
                continue;
            };
            let memory = self.scratch(HEADER + inside(m.total));
            memory.at(0, HEADER).copy_from(&parts[r]);
            whole.push(memory.at(HEADER, inside(m.total)));
            m.memory = memory;
        }
        let flights = match payload {
            Payload::Each(all) => {
                let mut send: Vec<Memory> = all.to_vec();
                send[me] = Memory::nothing(0);
                whole[me] = Memory::nothing(0);
                self.all_to_all(&send, &whole)?
            }
            _ => self.all_gather_parts(&whole[me].clone(), &whole)?,
        };
        if last {
            self.pass();
        }
        all_done(flights).await?;
        Ok(messages)
    }

    fn engine_all_gather(&self, send: &Memory, receive: &[Memory]) -> Result<Vec<Flight>> {
        let parts: Vec<Part> = receive.iter().map(Memory::part).collect();
        let mut keep = receive.to_vec();
        keep.push(send.clone());
        let part = send.part();
        let flight = self.cx.start(keep, |e| {
            // SAFETY: the flight keeps the memory; the parts are apart from one another, as their callers cut them, and
            // nobody else uses them until the flight is done.
            unsafe { e.all_gather(self.group.comm, part, &parts) }
        })?;
        Ok(vec![flight])
    }

    /// Sends one memory to each rank and receives one of each. The own ones are empty: nothing is sent to oneself. Each is
    /// at most a gigabyte.
    pub(crate) fn all_to_all(&self, send: &[Memory], receive: &[Memory]) -> Result<Vec<Flight>> {
        let bytes = |all: &[Memory]| all.iter().map(Memory::bytes).sum();
        self.count(bytes(send), bytes(receive));
        if self.few() {
            return self.messages(send, receive);
        }
        let to: Vec<Part> = send.iter().map(Memory::part).collect();
        let from: Vec<Part> = receive.iter().map(Memory::part).collect();
        let keep = send.iter().chain(receive).cloned().collect();
        let flight = self.cx.start(keep, |e| {
            // SAFETY: as in `engine_all_gather`.
            unsafe { e.all_to_all(self.group.comm, &to, &from) }
        })?;
        Ok(vec![flight])
    }

    /// Messages with data between this rank and the others, not counted.
    pub(crate) fn messages(&self, send: &[Memory], receive: &[Memory]) -> Result<Vec<Flight>> {
        let (n, me) = (self.size(), self.rank());
        let mut flights = Vec::with_capacity(2 * n);
        // Each rank begins with its neighbour, so that not all write to one.
        for r in (1..n).map(|k| (me + n - k) % n) {
            if receive.get(r).is_some_and(|m| m.bytes() > 0) {
                flights.extend(self.receive(&receive[r], r, DATA)?);
            }
        }
        for r in (1..n).map(|k| (me + k) % n) {
            if send.get(r).is_some_and(|m| m.bytes() > 0) {
                flights.extend(self.send(&send[r], r, DATA)?);
            }
        }
        Ok(flights)
    }

    /// Sends one memory to all and receives one of each rank. The own one is there already. Each is at most a gigabyte.
    pub(crate) fn all_gather_parts(
        &self,
        send: &Memory,
        receive: &[Memory],
    ) -> Result<Vec<Flight>> {
        let (n, me) = (self.size(), self.rank());
        let others = receive.iter().enumerate().filter(|(r, _)| *r != me);
        self.count(send.bytes() * (n - 1), others.map(|(_, m)| m.bytes()).sum());
        if self.few() {
            return self.messages(&vec![send.clone(); n], receive);
        }
        self.engine_all_gather(send, receive)
    }

    /// Sends memory of `root` to all, which have as many bytes.
    pub(crate) fn broadcast_parts(&self, memory: &Memory, root: usize) -> Result<Vec<Flight>> {
        let (n, me) = (self.size(), self.rank());
        match me == root {
            true => self.count(memory.bytes() * (n - 1), 0),
            false => self.count(0, memory.bytes()),
        }
        if n == 2 {
            return match me == root {
                true => self.send(memory, 1 - me, DATA),
                false => self.receive(memory, root, DATA),
            };
        }
        let pieces = memory.bytes().div_ceil(PIECE);
        (0..pieces)
            .map(|i| {
                let piece = memory.at(i * PIECE, PIECE);
                let part = piece.part();
                self.cx.start(vec![piece], |e| {
                    // SAFETY: as in `send` at the root, as in `receive` elsewhere.
                    unsafe { e.broadcast(self.group.comm, part, root) }
                })
            })
            .collect()
    }

    /// Data to one rank, which it receives with [`Call::receive_data`].
    pub(crate) fn send_data(&self, memory: &Memory, to: usize) -> Result<Vec<Flight>> {
        self.count(memory.bytes(), 0);
        self.send(memory, to, DATA)
    }

    /// Data from one rank.
    pub(crate) fn receive_data(&self, memory: &Memory, from: usize) -> Result<Vec<Flight>> {
        self.count(0, memory.bytes());
        self.receive(memory, from, DATA)
    }

    /// A user's message: what it is, then its bytes where they are many.
    pub(crate) fn send_user(
        &self,
        text: &str,
        memory: &Memory,
        to: usize,
        tag: u32,
    ) -> Result<Vec<Flight>> {
        let message = self.compose(text, memory);
        self.count(memory.bytes(), 0);
        let mut flights = self.send(&message, to, USER + tag)?;
        if memory.bytes() > SMALL {
            flights.extend(self.send(memory, to, USER + tag)?);
        }
        Ok(flights)
    }

    /// The first part of a user's message.
    pub(crate) fn want_user(&self, from: usize, tag: u32) -> Result<(Memory, Vec<Flight>)> {
        let memory = self.scratch(HEADER + SMALL);
        let flights = self.receive(&memory, from, USER + tag)?;
        Ok((memory, flights))
    }

    /// The second part of a user's message.
    pub(crate) fn want_rest(&self, memory: &Memory, from: usize, tag: u32) -> Result<Vec<Flight>> {
        self.receive(memory, from, USER + tag)
    }

    /// Waits for the first part of a user's message; its text, and the message.
    pub(crate) async fn read_user(
        &self,
        (memory, flights): (Memory, Vec<Flight>),
        expected: usize,
    ) -> Result<(Option<String>, Message)> {
        all_done(flights).await?;
        let text = memory
            .is_present()
            .then(|| read_header(&memory.at(0, HEADER).to_vec()).1);
        let message = self.message(memory, expected);
        self.count(0, message.total);
        Ok((text, message))
    }

    /// The engine's own reduction, in place.
    pub(crate) fn engine_all_reduce(
        &self,
        memory: &Memory,
        dtype: DType,
        op: EngineOp,
    ) -> Result<Vec<Flight>> {
        let n = self.size();
        let bytes = 2 * (memory.bytes() - memory.bytes() / n);
        self.count(bytes, bytes);
        let pieces = memory.bytes().div_ceil(PIECE);
        (0..pieces)
            .map(|i| {
                let piece = memory.at(i * PIECE, PIECE);
                let part = piece.part();
                self.cx.start(vec![piece], |e| {
                    // SAFETY: as in `receive`; tensors are aligned for their dtype.
                    unsafe { e.all_reduce(self.group.comm, part, dtype, op) }
                })
            })
            .collect()
    }
}
