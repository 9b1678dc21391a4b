//! The loop of the communication thread.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use torsh_tensor::{Result, TorshError};

use super::{Call, Command, Cx, Holds, Lane, Node, Operation, Steps};
use crate::engine::Engine;
use crate::failure::{Diagnoses, Ticket};
use crate::group::GroupState;
use crate::work::State as WorkState;

/// How long the thread watches requests without rest after something happened. It does not yield: whoever yields to a
/// thread that computes is back after some milliseconds, and after a nap at once.
const SPIN: Duration = Duration::from_micros(20);
/// How long it watches for commands when nothing is under way. It yields then, as callers need the core.
const WATCH: Duration = Duration::from_micros(50);
/// The shortest and longest nap while something is under way, in microseconds.
const NAPS: (u64, u64) = (5, 200);
/// How long it sleeps when nothing is under way. Then it looks for questions of other ranks.
const SLEEP: Duration = Duration::from_millis(50);
/// How often deadlines are compared with the clock.
const LOOK: Duration = Duration::from_millis(2);

/// An operation under way.
struct Active {
    /// Whether the next operation of the lane may start.
    released: bool,
    steps: Steps,
    operation: Begun,
    call: Call,
}

/// What remains of an [`Operation`] that has begun.
struct Begun {
    ticket: Arc<Ticket>,
    group: Arc<GroupState>,
    work: Arc<WorkState>,
    lane: Lane,
    deadline: Instant,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Operation>,
    /// Whether an operation has not let the next one start.
    busy: bool,
}

pub(super) struct Thread {
    cx: Rc<Cx>,
    lanes: HashMap<Lane, Line>,
    active: Vec<Active>,
    diagnoses: Diagnoses,
    /// Until when the others may say good-bye, once this rank has.
    finishing: Option<Instant>,
    aborted: bool,
    /// Whether the thread has come to its end as it should.
    ended: bool,
}

impl Thread {
    pub(super) fn new(node: Arc<Node>, engine: Box<dyn Engine>) -> Thread {
        let cx = Rc::new(Cx {
            engine: RefCell::new(engine),
            node,
            pool: Rc::default(),
            holds: Holds::default(),
            orphans: RefCell::default(),
            progress: Cell::new(0),
            alone: Cell::new(false),
            to_be_alone: Cell::new(0),
            active: Cell::new(0),
        });
        Thread {
            diagnoses: Diagnoses::new(&cx),
            cx,
            lanes: HashMap::new(),
            active: Vec::new(),
            finishing: None,
            aborted: false,
            ended: false,
        }
    }

    pub(super) fn run(mut self) -> Result<()> {
        let mut since = Instant::now();
        let mut looked = since;
        let mut seen = u64::MAX;
        let mut nap = NAPS.0;
        loop {
            while let Some(command) = self.cx.node.pop() {
                self.cx.moved();
                self.command(command);
            }
            self.advance();
            self.diagnoses.listen();
            self.sweep();
            let now = Instant::now();
            if now - looked >= LOOK {
                looked = now;
                self.look(now);
            }
            if let Some(until) = self.finishing
                && self.is_idle()
            {
                if self.aborted || self.diagnoses.all_left() {
                    return self.end(None);
                }
                if now >= until {
                    return self.end(Some(self.diagnoses.not_left()));
                }
            }
            if self.cx.progress.get() != seen {
                seen = self.cx.progress.get();
                since = now;
                nap = NAPS.0;
                continue;
            }
            let quiet = now - since;
            let idle = self.is_idle() && self.finishing.is_none() && !self.diagnoses.are_open();
            if idle && quiet < WATCH {
                std::thread::yield_now();
            } else if idle {
                self.cx.node.sleep(SLEEP);
            } else if quiet < SPIN {
                std::hint::spin_loop();
            } else {
                self.cx.node.sleep(Duration::from_micros(nap));
                nap = (nap * 2).min(NAPS.1);
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.active.is_empty() && self.lanes.values().all(|l| l.waiting.is_empty())
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Run(operation) => {
                let lane = operation.lane;
                self.lanes
                    .entry(lane)
                    .or_default()
                    .waiting
                    .push_back(operation);
                self.start(lane);
            }
            Command::Abort(code) => {
                self.aborted = true;
                self.cx.engine.borrow_mut().abort(code);
            }
            Command::Finish(patience) => {
                self.finishing = Some(Instant::now() + patience);
                if !self.aborted {
                    self.diagnoses.leave();
                }
            }
        }
    }

    /// Starts what a lane lets start.
    fn start(&mut self, lane: Lane) {
        while !self.cx.alone.get()
            && let Some(line) = self.lanes.get_mut(&lane)
            && !line.busy
            && let Some(operation) = line.waiting.pop_front()
        {
            if let Some(reason) = operation.group.problem() {
                operation.ticket.end(false);
                operation.work.complete(Err(reason));
                continue;
            }
            line.busy = true;
            let Operation {
                ticket,
                group,
                work,
                lane,
                deadline,
                steps,
            } = operation;
            ticket.begin();
            let call = Call {
                cx: self.cx.clone(),
                group: group.clone(),
                ticket: ticket.clone(),
                passed: Rc::default(),
                sent: Rc::default(),
                received: Rc::default(),
            };
            self.active.push(Active {
                released: false,
                steps: steps(call.clone()),
                operation: Begun {
                    ticket,
                    group,
                    work,
                    lane,
                    deadline,
                },
                call,
            });
            self.cx.active.set(self.active.len());
            self.step(self.active.len() - 1);
        }
    }

    /// Drives all operations once.
    fn advance(&mut self) {
        let mut i = self.active.len();
        while i > 0 {
            i -= 1;
            // An operation may have ended others of its group.
            if i < self.active.len() {
                self.step(i);
            }
        }
        if !self.cx.alone.get()
            && self
                .lanes
                .values()
                .any(|l| !l.busy && !l.waiting.is_empty())
        {
            let lanes: Vec<Lane> = self.lanes.keys().copied().collect();
            lanes.into_iter().for_each(|lane| self.start(lane));
        }
    }

    fn step(&mut self, i: usize) {
        let active = &mut self.active[i];
        let mut waker = Context::from_waker(Waker::noop());
        let polled = active.steps.as_mut().poll(&mut waker);
        let lane = active.operation.lane;
        if (active.call.passed.get() || polled.is_ready()) && !active.released {
            active.released = true;
            self.release(lane);
        }
        if let Poll::Ready(result) = polled {
            let ended = self.active.swap_remove(i);
            self.cx.active.set(self.active.len());
            self.cx.moved();
            self.end_one(ended, result);
        }
    }

    /// Lets the lane's next operation start.
    fn release(&mut self, lane: Lane) {
        if let Some(line) = self.lanes.get_mut(&lane) {
            line.busy = false;
            if line.waiting.is_empty() {
                self.lanes.remove(&lane);
            }
        }
    }

    fn end_one(&mut self, ended: Active, result: Result<()>) {
        let Active {
            steps,
            operation,
            call,
            ..
        } = ended;
        // The storages are free before the caller hears of it.
        drop(steps);
        let (sent, received) = (call.sent.get(), call.received.get());
        drop(call);
        operation.ticket.count(sent, received);
        operation.ticket.end(result.is_ok());
        operation.group.count(operation.ticket.kind, sent, received);
        match result {
            Ok(()) => operation.work.complete(Ok(())),
            Err(e) => {
                let e = Arc::new(operation.ticket.explain(e, &operation.group));
                let path = self.cx.node.record.write(&self.cx.node, &e.to_string());
                let e = Arc::new(crate::failure::with_record(&e, path));
                operation.work.complete(Err(e.clone()));
                self.fail(&operation.group, e);
            }
        }
    }

    /// Ends all operations of a group. Requests under way go on without them.
    fn fail(&mut self, group: &Arc<GroupState>, reason: Arc<TorshError>) {
        group.set_problem(reason);
        let Some(reason) = group.problem() else {
            return;
        };
        let mut i = 0;
        while i < self.active.len() {
            if Arc::ptr_eq(&self.active[i].operation.group, group) {
                let ended = self.active.swap_remove(i);
                drop(ended.steps);
                if !ended.released {
                    self.release(ended.operation.lane);
                }
                ended.operation.ticket.end(false);
                ended.operation.work.complete(Err(reason.clone()));
            } else {
                i += 1;
            }
        }
        self.cx.active.set(self.active.len());
        for line in self.lanes.values_mut() {
            let of_group = |o: &Operation| Arc::ptr_eq(&o.group, group);
            if line.waiting.iter().any(of_group) {
                for o in line.waiting.drain(..) {
                    o.ticket.end(false);
                    o.work.complete(Err(reason.clone()));
                }
            }
        }
        self.cx.moved();
    }

    /// Drops the memory of requests that are done by now.
    fn sweep(&mut self) {
        if self.cx.orphans.borrow().is_empty() {
            return;
        }
        let mut orphans = std::mem::take(&mut *self.cx.orphans.borrow_mut());
        orphans.retain(|(request, _)| {
            let going = matches!(self.cx.engine.borrow_mut().poll(*request), Ok(false));
            if !going {
                self.cx.moved();
            }
            going
        });
        self.cx.orphans.borrow_mut().append(&mut orphans);
    }

    /// Compares deadlines with the clock.
    fn look(&mut self, now: Instant) {
        let late =
            |deadline: Instant, group: &GroupState| now >= deadline && group.problem().is_none();
        let mut asked: Vec<(Arc<GroupState>, Arc<Ticket>)> = Vec::new();
        for a in &self.active {
            if late(a.operation.deadline, &a.operation.group) {
                asked.push((a.operation.group.clone(), a.operation.ticket.clone()));
            }
        }
        for o in self.lanes.values().flat_map(|l| &l.waiting) {
            if late(o.deadline, &o.group) {
                asked.push((o.group.clone(), o.ticket.clone()));
            }
        }
        asked.sort_by_key(|(_, t)| t.seq);
        for (group, ticket) in asked {
            self.diagnoses.open(&group, &ticket);
        }
        for (group, ticket, e) in self.diagnoses.verdicts(now) {
            if ticket.is_over() {
                continue; // It came to its end meanwhile.
            }
            let path = self.cx.node.record.write(&self.cx.node, &e.to_string());
            let e = Arc::new(crate::failure::with_record(&e, path));
            self.fail(&group, e);
        }
    }

    /// Ends the engine too, unless there is a problem.
    fn end(&mut self, problem: Option<TorshError>) -> Result<()> {
        for command in self.cx.node.close() {
            if let Command::Run(o) = command {
                let gone = TorshError::invalid(o.ticket.kind, "the process group was destroyed");
                o.work.complete(Err(Arc::new(gone)));
            }
        }
        self.diagnoses.close();
        self.lanes.clear();
        let result = match problem {
            Some(e) => Err(e),
            None if self.aborted => Ok(()),
            None => self.cx.engine.borrow_mut().finish(),
        };
        // Engines in this process write to nothing once they are dropped, which is before the requests' memory. MPI does so
        // when it has finished.
        let over = matches!(self.cx.node.engine, "threads" | "fake");
        if !over && (self.aborted || result.is_err()) {
            std::mem::forget(std::mem::take(&mut *self.cx.orphans.borrow_mut()));
        }
        self.ended = true;
        result
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // After a panic of the thread nobody may wait for ever.
        let gone = || Arc::new(TorshError::Other("the communication thread ended".into()));
        for command in self.cx.node.close() {
            if let Command::Run(o) = command {
                o.work.complete(Err(gone()));
            }
        }
        for a in std::mem::take(&mut self.active) {
            a.operation.work.complete(Err(gone()));
            std::mem::forget(a.steps);
        }
        for o in std::mem::take(&mut self.lanes)
            .into_values()
            .flat_map(|l| l.waiting)
        {
            o.work.complete(Err(gone()));
        }
        if !self.ended {
            std::mem::forget(std::mem::take(&mut *self.cx.orphans.borrow_mut()));
        }
    }
}
