//! The choice of algorithms.
//!
//! An operation that has several algorithms has an enum of all of them (the trait `Algorithm`): one
//! pure function says which is the fastest for a problem on a machine, and why. Kernels ask `pick`,
//! where a choice can be seen and replaced:
//!
//! * `TORSH_EXPLAIN=1` prints a line for each choice: operation, problem, algorithm and reason.
//! * [`Force`] makes an operation take one algorithm wherever it accepts the problem, for tests and
//!   measurements.
//! * `TORSH_TUNING=FILE` names a file of measured choices, as `torsh-bench --tune` writes it: lines
//!   `operation problem: algorithm`.
//!
//! This file knows no operation: [`crate::operations`] lists them, with those of other crates.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use torsh_core::machine::Machine;
#[cfg(not(feature = "unit-tests"))]
use torsh_core::machine::machine;
use torsh_core::pool;

#[cfg(feature = "unit-tests")]
use crate::testing::machine;

/// All algorithms of an operation.
pub trait Algorithm: Copy + Eq + fmt::Debug + Send + 'static {
    /// What the choice depends on, besides the machine and the threads. It prints as
    /// `name=value` parts; what is not printed must not matter.
    type Problem: fmt::Display + Hash;
    /// The operation's name in lines and files.
    const OP: &'static str;
    /// Every algorithm.
    const ALL: &'static [Self];

    /// The algorithm's name in lines and files.
    fn name(self) -> &'static str;

    /// Whether the algorithm computes the problem on the machine.
    fn accepts(self, problem: &Self::Problem, machine: &Machine) -> bool;

    /// The algorithm that is taken as the fastest for the problem on so many threads, which accepts
    /// it, and why.
    fn choose(problem: &Self::Problem, machine: &Machine, threads: usize) -> (Self, &'static str);

    /// Problems whose choices [`choices`](crate::operations::choices) lists.
    fn examples() -> Vec<Self::Problem> {
        Vec::new()
    }
}

/// What is chosen for problems on the described processors, with one thread and with two.
pub(crate) fn table<A: Algorithm>(problems: &[A::Problem]) -> String {
    let mut text = String::new();
    for problem in problems {
        let _ = writeln!(text, "{} {problem}", A::OP);
        for machine in Machine::DESCRIBED
            .iter()
            .filter_map(|n| Machine::described(n))
        {
            let [one, two] = [1, 2].map(|n| A::choose(problem, &machine, n).0.name());
            let name = &machine.name;
            let _ = match one == two {
                true => writeln!(text, "  {name}: {one}"),
                false => writeln!(text, "  {name}: {one}, with two threads {two}"),
            };
        }
    }
    text
}

/// The algorithm for a problem on this machine.
#[inline]
pub fn pick<A: Algorithm>(problem: &A::Problem, threads: usize) -> A {
    let (chosen, reason) = A::choose(problem, machine(), threads);
    match MODE.load(Ordering::Relaxed) {
        PLAIN => chosen,
        _ => replaced(problem, threads, chosen, reason),
    }
}

/// Whether anything but [`Algorithm::choose`] has a say: [`UNKNOWN`] until the environment was asked.
static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const PLAIN: u8 = 1;
const SPECIAL: u8 = 2;

#[derive(Default)]
struct State {
    /// Whether `TORSH_EXPLAIN` was read, and `TORSH_TUNING`, which needs the list of operations.
    asked: bool,
    tuned: bool,
    explain: bool,
    /// The last line printed by a part of a call on several threads.
    last: String,
    /// Algorithms by `operation problem`.
    tuning: HashMap<String, String>,
    /// What [`State::tuning`] has for an operation and the hash of a problem.
    known: HashMap<(&'static str, u64), Option<usize>>,
    /// Operation and algorithm of each [`Force`], and how often it was taken.
    forced: Vec<(&'static str, &'static str, usize)>,
    /// What [`record`] collects.
    recorded: Option<Vec<Chosen>>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// The state, with the environment's part in it.
fn state() -> MutexGuard<'static, Option<State>> {
    let mut guard = STATE.lock().unwrap_or_else(|e| e.into_inner());
    let state = guard.get_or_insert_default();
    let set = |name: &str| {
        std::env::var(name)
            .ok()
            .filter(|v| !v.is_empty() && v != "0")
    };
    if !state.asked {
        state.asked = true;
        state.explain = set("TORSH_EXPLAIN").is_some();
        if state.explain {
            let machine = machine().to_string();
            eprintln!("torsh: machine: {}", machine.trim_end().replace('\n', ", "));
        }
    }
    if let (false, Some(operations)) = (state.tuned, OPERATIONS.get()) {
        state.tuned = true;
        if let Some(path) = set("TORSH_TUNING") {
            match std::fs::read_to_string(&path)
                .map_err(|e| e.to_string())
                .and_then(|text| read_tuning(&text, operations))
            {
                Ok(tuning) => state.tuning = tuning,
                Err(e) => eprintln!("torsh: TORSH_TUNING={path}: {e}; the defaults are used"),
            }
        }
    }
    guard
}

impl State {
    fn mode(&self) -> u8 {
        let special = self.explain
            || !self.tuning.is_empty()
            || !self.forced.is_empty()
            || self.recorded.is_some();
        match special {
            true => SPECIAL,
            false if self.tuned => PLAIN,
            false => UNKNOWN,
        }
    }
}

/// The choices of a tuning file.
fn read_tuning(text: &str, operations: &[Operation]) -> Result<HashMap<String, String>, String> {
    let mut all = HashMap::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (nth, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let at = |e: String| format!("line {}: {e}", nth + 1);
        let (problem, algorithm) = line
            .rsplit_once(':')
            .ok_or_else(|| at(format!("no `:` in `{line}`")))?;
        let op = problem.split(' ').next().unwrap_or_default();
        let operation = operations
            .iter()
            .find(|o| o.name == op)
            .ok_or_else(|| at(format!("no operation `{op}`")))?;
        let algorithm = algorithm.trim();
        if !(operation.algorithms)().contains(&algorithm) {
            return Err(at(format!("{op} has no algorithm `{algorithm}`")));
        }
        all.insert(problem.trim().to_string(), algorithm.to_string());
    }
    Ok(all)
}

/// [`pick`] where a choice is printed, recorded or replaced.
#[cold]
#[inline(never)]
fn replaced<A: Algorithm>(
    problem: &A::Problem,
    threads: usize,
    chosen: A,
    reason: &'static str,
) -> A {
    let mut guard = state();
    let Some(state) = guard.as_mut() else {
        return chosen;
    };
    MODE.store(state.mode(), Ordering::Relaxed);
    if state.mode() != SPECIAL {
        return chosen;
    }
    let named = |name: &str| A::ALL.iter().copied().find(|a| a.name() == name);
    let fits = |a: &A| a.accepts(problem, machine());
    let (mut chosen, mut reason) = (chosen, reason);
    let text = || format!("{} {problem} threads={threads}", A::OP);
    if !state.tuning.is_empty() {
        let mut hasher = DefaultHasher::new();
        (threads, problem).hash(&mut hasher);
        let tuning = &state.tuning;
        let index = *state
            .known
            .entry((A::OP, hasher.finish()))
            .or_insert_with(|| {
                let name = tuning.get(&text())?;
                A::ALL.iter().position(|a| a.name() == name)
            });
        if let Some(tuned) = index.map(|i| A::ALL[i]).filter(fits) {
            (chosen, reason) = (tuned, "measured: TORSH_TUNING");
        }
    }
    for (op, name, taken) in &mut state.forced {
        if *op == A::OP
            && let Some(forced) = named(name).filter(fits)
        {
            *taken += 1;
            (chosen, reason) = (forced, "forced");
        }
    }
    if state.explain {
        let mut line = format!("torsh: {}: {}: {reason}", text(), chosen.name());
        // The parts of a call on several threads are mostly alike.
        match pool::in_parallel() {
            true if state.last == line => line.clear(),
            true => state.last.clone_from(&line),
            false => state.last.clear(),
        }
        if !line.is_empty() {
            eprintln!("{line}");
        }
    }
    if let Some(all) = &mut state.recorded {
        let mut text = String::new();
        let _ = write!(text, "{problem} threads={threads}");
        let new = Chosen {
            op: A::OP,
            problem: text,
            algorithm: chosen.name(),
            reason,
            accepted: A::ALL
                .iter()
                .filter(|a| fits(a))
                .map(|a| a.name())
                .collect(),
        };
        if !all.contains(&new) {
            all.push(new);
        }
    }
    chosen
}

/// A choice that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The operation.
    pub op: &'static str,
    /// The problem and the threads.
    pub problem: String,
    /// The algorithm that was taken.
    pub algorithm: &'static str,
    /// Why.
    pub reason: &'static str,
    /// All algorithms that accept the problem on this machine.
    pub accepted: Vec<&'static str>,
}

/// A line of a tuning file.
impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.op, self.problem, self.algorithm)
    }
}

/// Calls `f` and says which choices were made meanwhile, on any thread, each once.
pub fn record<R>(f: impl FnOnce() -> R) -> (R, Vec<Chosen>) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    change(|state| state.recorded = Some(Vec::new()));
    let result = f();
    let mut all = Vec::new();
    change(|state| all = state.recorded.take().unwrap_or_default());
    (result, all)
}

/// Changes the state, and says so to [`pick`].
fn change(f: impl FnOnce(&mut State)) {
    let mut guard = state();
    if let Some(state) = guard.as_mut() {
        f(state);
        MODE.store(state.mode(), Ordering::Relaxed);
    }
}

/// The operation of a name; the error lists those that there are.
pub(crate) fn find<'a>(operations: &'a [Operation], op: &str) -> Result<&'a Operation, String> {
    operations.iter().find(|o| o.name == op).ok_or_else(|| {
        let all: Vec<_> = operations.iter().map(|o| o.name).collect();
        format!(
            "no operation `{op}` has algorithms; those that do: {}",
            all.join(", ")
        )
    })
}

/// While it lives, an operation takes one algorithm for every problem that the algorithm accepts, on all
/// threads of the process. Other problems take what they would.
#[derive(Debug)]
pub struct Force {
    op: &'static str,
    algorithm: &'static str,
}

impl Force {
    /// Forces an algorithm of one of these operations.
    pub(crate) fn among(
        operations: &[Operation],
        op: &str,
        algorithm: &str,
    ) -> Result<Force, String> {
        let operation = find(operations, op)?;
        let all = (operation.algorithms)();
        let algorithm = all
            .iter()
            .copied()
            .find(|a| *a == algorithm)
            .ok_or_else(|| {
                format!(
                    "{op} has no algorithm `{algorithm}`, but {}",
                    all.join(", ")
                )
            })?;
        let force = Force {
            op: operation.name,
            algorithm,
        };
        change(|state| state.forced.push((force.op, force.algorithm, 0)));
        Ok(force)
    }

    /// How often the algorithm was taken.
    pub fn taken(&self) -> usize {
        let mut all = 0;
        change(|state| {
            let own = |f: &&(&str, &str, usize)| (f.0, f.1) == (self.op, self.algorithm);
            all = state.forced.iter().filter(own).map(|f| f.2).sum();
        });
        all
    }
}

impl Drop for Force {
    fn drop(&mut self) {
        change(|state| {
            let own = |f: &(&str, &str, usize)| (f.0, f.1) == (self.op, self.algorithm);
            if let Some(at) = state.forced.iter().position(own) {
                state.forced.remove(at);
            }
        });
    }
}

/// An operation with several algorithms.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Its name in lines and files.
    pub name: &'static str,
    /// The names of its algorithms.
    pub(crate) algorithms: fn() -> Vec<&'static str>,
    /// The choices for its [examples](Algorithm::examples).
    pub(crate) choices: fn() -> String,
}

/// The entry of an operation in the list.
pub const fn operation<A: Algorithm>() -> Operation {
    Operation {
        name: A::OP,
        algorithms: || A::ALL.iter().map(|a| a.name()).collect(),
        choices: || table::<A>(&A::examples()),
    }
}

/// The list of operations, in which names of a tuning file are looked up.
static OPERATIONS: OnceLock<&'static [Operation]> = OnceLock::new();

/// Makes the operations known.
pub(crate) fn set_operations(operations: &'static [Operation]) {
    let _ = OPERATIONS.set(operations);
}

#[cfg(feature = "unit-tests")]
mod tests;
