//! Changes files at random and checks what readers make of them: each file is read or refused with an error, within
//! bounded memory and time.
//!
//! A [`Target`] is a reader with good files; [`Fuzz::run`] changes the files of all targets in turn. It belongs in a test
//! named `fuzz`:
//!
//! ```
//! use torsh_fuzz::{Fuzz, Target};
//!
//! let number = Target::new("number", vec![b"12".to_vec(), b"-7".to_vec()], |bytes, _| {
//!     let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
//!     text.parse::<i64>().map(|_| ()).map_err(|e| e.to_string())
//! });
//! Fuzz::new("example").rounds(50).run(vec![number]);
//! ```
//!
//! The changes are the same in each run. Variables of the environment ask for more:
//!
//! | variable | effect |
//! |---|---|
//! | `TORSH_FUZZ_SECONDS=600` | goes on for so long |
//! | `TORSH_FUZZ_SEED=7` | makes other changes |
//! | `TORSH_FUZZ_TARGETS=NAME,NAME` | runs these targets alone |
//! | `TORSH_FUZZ_FILES=NAME:PATH,NAME:PATH` | runs targets on files that a failure kept, and nothing else |
//!
//! A file is on disk while its target runs, in the folder `PACKAGE-fuzz-PID` of the temporary directory, under the name
//! of the target: it is still there if the process crashes.
#![forbid(unsafe_code)]

mod change;
mod run;
mod watch;

pub use change::{JSON, Random, change};
pub use run::Fuzz;

type Run = Box<dyn Fn(&[u8], &mut Random) -> Result<(), String>>;

/// A reader, and files that it reads.
pub struct Target {
    name: &'static str,
    files: Vec<Vec<u8>>,
    /// How many of the files must be read as they are: the first ones.
    good: usize,
    words: &'static [&'static str],
    header: bool,
    run: Run,
}

impl Target {
    /// A target of this name. `run` must read each of the good files; of changed ones it may return an error. It panics if
    /// what it reads is wrong, or if an error does not say what it should.
    ///
    /// `run` also gets random numbers that the file decides, for choices such as options.
    pub fn new<E: std::fmt::Display>(
        name: &'static str,
        good: Vec<Vec<u8>>,
        run: impl Fn(&[u8], &mut Random) -> Result<(), E> + 'static,
    ) -> Target {
        Target {
            name,
            good: good.len(),
            files: good,
            words: &[],
            header: false,
            run: Box::new(move |bytes, random| run(bytes, random).map_err(|e| e.to_string())),
        }
    }

    /// Files that are changed like the good ones, but need not be read as they are.
    #[must_use]
    pub fn others(mut self, files: Vec<Vec<u8>>) -> Target {
        self.files.extend(files);
        self
    }

    /// Words of the format, which are put in here and there.
    #[must_use]
    pub fn words(mut self, words: &'static [&'static str]) -> Target {
        self.words = words;
        self
    }

    /// Makes half of the changes in the first 64 bytes, for formats in which a header decides most.
    #[must_use]
    pub fn header(mut self) -> Target {
        self.header = true;
        self
    }
}
