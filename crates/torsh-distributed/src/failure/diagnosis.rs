//! Questions to the other ranks, and their good-byes.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use torsh_tensor::TorshError;

use super::Ticket;
use crate::comm::{CONTROL, Cx, Flight, Memory};
use crate::group::GroupState;

/// How long the others have to answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The most bytes of a message.
const ROOM: usize = 16 << 10;

/// What communication threads say to one another.
#[derive(Serialize, Deserialize)]
enum Word {
    /// Have you called this operation?
    Ask {
        from: usize,
        id: u64,
        group: String,
        seq: u64,
        collective: bool,
    },
    Answer {
        from: usize,
        id: u64,
        came: bool,
        text: String,
    },
    /// No operation follows.
    Leave { from: usize },
}

struct Diagnosis {
    id: u64,
    group: Arc<GroupState>,
    ticket: Arc<Ticket>,
    until: Instant,
    /// By place in the group.
    answers: Vec<Option<(bool, String)>>,
}

impl Diagnosis {
    fn is_over(&self, now: Instant) -> bool {
        let me = self.group.rank;
        let mut others = self.answers.iter().enumerate().filter(|(r, _)| *r != me);
        now >= self.until || self.ticket.is_over() || others.all(|(_, a)| a.is_some())
    }

    fn error(&self, left: &[bool]) -> TorshError {
        let (t, g) = (&self.ticket, &self.group);
        let mut text = format!(
            "{} of group {} (ranks {:?}) did not end within its {:?}",
            t.text,
            t.group,
            g.ranks,
            g.timeout()
        );
        let others = || {
            self.answers
                .iter()
                .enumerate()
                .filter(|(r, _)| *r != g.rank)
        };
        let absent = others().any(|(_, a)| a.as_ref().is_none_or(|(came, _)| !came));
        for (r, answer) in others() {
            let world = g.ranks[r];
            let who = match world == r {
                true => format!("\n  rank {r}"),
                false => format!("\n  rank {r} (rank {world} of the world)"),
            };
            text += &match answer {
                None if left.get(world) == Some(&true) => {
                    format!("{who} did not come: it has called destroy, or its program has ended")
                }
                None => format!(
                    "{who} does not answer: it is stopped or gone, or its machine cannot be reached"
                ),
                Some((false, what)) => format!("{who} did not come: {what}"),
                Some((true, what)) if !absent || !t.collective => format!("{who} came: {what}"),
                Some(_) => continue,
            };
        }
        TorshError::failed(t.kind, text)
            .with_hint("all ranks must call the same operations; TORSH_DISTRIBUTED_DEBUG=1 compares them before each, TORSH_DISTRIBUTED_TIMEOUT sets the deadline in seconds")
            .at(t.caller)
    }
}

/// The questions of a rank, and its answers to others.
pub(crate) struct Diagnoses {
    cx: Rc<Cx>,
    open: Vec<Diagnosis>,
    next: u64,
    listening: Option<(Flight, Memory)>,
    /// Whether there is anybody to listen to.
    deaf: bool,
    /// Which ranks have said good-bye.
    left: Vec<bool>,
}

impl Diagnoses {
    pub(crate) fn new(cx: &Rc<Cx>) -> Diagnoses {
        let n = cx.node.world_size;
        Diagnoses {
            cx: cx.clone(),
            open: Vec::new(),
            next: 0,
            listening: None,
            deaf: n == 1 || cx.node.is_fake(),
            left: vec![false; n],
        }
    }

    pub(crate) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    fn tell(&mut self, to: usize, word: &Word) {
        let Ok(text) = serde_json::to_vec(word) else {
            return;
        };
        // Whoever cannot be told does not answer.
        let _ = self.cx.tell(to, CONTROL, &text[..text.len().min(ROOM)]);
    }

    /// Hears what the others say.
    pub(crate) fn listen(&mut self) {
        while !self.deaf {
            let done = self.all_left();
            let heard = match &mut self.listening {
                // After everybody's good-bye nothing comes.
                None if done => return,
                None => match self.cx.listen(ROOM, CONTROL) {
                    Ok(l) => {
                        self.listening = Some(l);
                        continue;
                    }
                    Err(_) => Err(()),
                },
                Some((flight, memory)) => match flight.poll() {
                    Ok(false) => return,
                    Ok(true) => Ok(memory.to_vec()),
                    Err(_) => Err(()),
                },
            };
            self.listening = None;
            match heard {
                Ok(bytes) => {
                    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
                    if let Ok(word) = serde_json::from_slice(&bytes[..end]) {
                        self.hear(word);
                    }
                }
                // The engine has failed; what is under way hears it too.
                Err(()) => self.deaf = true,
            }
        }
    }

    fn hear(&mut self, word: Word) {
        match word {
            Word::Ask {
                from,
                id,
                group,
                seq,
                collective,
            } => {
                let (came, mut text) = self.cx.node.record.answer(&group, seq, collective);
                let mut end = text.len().min(ROOM / 4);
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                text.truncate(end);
                let from_here = self.cx.node.rank;
                let answer = Word::Answer {
                    from: from_here,
                    id,
                    came,
                    text,
                };
                self.tell(from, &answer);
            }
            Word::Answer {
                from,
                id,
                came,
                text,
            } => {
                let Some(diagnosis) = self.open.iter_mut().find(|i| i.id == id) else {
                    return;
                };
                let place = diagnosis.group.ranks.iter().position(|&r| r == from);
                if let Some(place) = place {
                    diagnosis.answers[place] = Some((came, text));
                }
            }
            Word::Leave { from } => {
                if let Some(left) = self.left.get_mut(from) {
                    *left = true;
                }
            }
        }
    }

    /// Asks the ranks of a group for an operation that is late.
    pub(crate) fn open(&mut self, group: &Arc<GroupState>, ticket: &Arc<Ticket>) {
        if self.open.iter().any(|i| Arc::ptr_eq(&i.group, group)) {
            return;
        }
        self.next += 1;
        let id = self.next;
        let others: Vec<usize> = group
            .ranks
            .iter()
            .copied()
            .filter(|&r| r != self.cx.node.rank)
            .collect();
        for to in others {
            if !self.left[to] && !self.deaf {
                let ask = Word::Ask {
                    from: self.cx.node.rank,
                    id,
                    group: group.name.to_string(),
                    seq: ticket.seq,
                    collective: ticket.collective,
                };
                self.tell(to, &ask);
            }
        }
        self.open.push(Diagnosis {
            id,
            group: group.clone(),
            ticket: ticket.clone(),
            until: Instant::now() + TIMEOUT,
            answers: vec![None; group.ranks.len()],
        });
    }

    /// The questions that are answered, or have waited long enough.
    pub(crate) fn verdicts(
        &mut self,
        now: Instant,
    ) -> Vec<(Arc<GroupState>, Arc<Ticket>, TorshError)> {
        let left = &self.left;
        self.open
            .extract_if(.., |i| i.is_over(now))
            .map(|i| (i.group.clone(), i.ticket.clone(), i.error(left)))
            .collect()
    }

    /// Says good-bye to all.
    pub(crate) fn leave(&mut self) {
        if self.deaf {
            return;
        }
        let from = self.cx.node.rank;
        // The own good-bye ends the last message that is waited for.
        for to in 0..self.left.len() {
            self.tell(to, &Word::Leave { from });
        }
    }

    /// Whether nobody says anything any more.
    pub(crate) fn all_left(&self) -> bool {
        self.deaf || self.left.iter().all(|&l| l)
    }

    /// The error of a rank that waited in vain for the others' good-byes.
    pub(crate) fn not_left(&self) -> TorshError {
        let missing: Vec<usize> = (0..self.left.len()).filter(|&r| !self.left[r]).collect();
        TorshError::failed(
            "destroy",
            format!("the ranks {missing:?} did not call destroy in time"),
        )
        .with_hint("all ranks must call destroy, or end")
    }

    /// Stops listening.
    pub(crate) fn close(&mut self) {
        self.listening = None;
        self.open.clear();
    }
}
