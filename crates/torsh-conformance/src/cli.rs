//! The command line.

use std::path::{Path, PathBuf};

use crate::bits::Recorder;
use crate::device::OnDevice;
use crate::executor::Executor;
use crate::runner::{self, Options};
use crate::source::{Source, pack};
use crate::tiers::Tier;

/// How the program is called.
pub const USAGE: &str = "\
usage: torsh-conformance DIR [--op NAME ...] [--tier core|full|all] [--device NAME] [--share I/N] [--bits FILE] [--verbose] [--list-absent]
       torsh-conformance special DIR [--verbose]
       torsh-conformance sparse DIR [--only NAME ...] [--share I/N] [--device NAME] [--verbose]
       torsh-conformance points FILE.zip [--only NAME ...] [--verbose]
       torsh-conformance vision DIR models|ops|transforms [--only TEXT ...] [--share I/N] [--max-params N] [--verbose]
       torsh-conformance text DIR architectures|tokenizers|metrics [--only TEXT ...] [--share I/N] [--verbose]
       torsh-conformance pretrained DIR [--weights W] [--only NAME ...] [--verbose]
       torsh-conformance pack DIR FILE.zip
       torsh-conformance operators [--check] FILE.md
       torsh-conformance book [--check] [--doc DIR] DOCS

DIR            directory of golden cases (ops, modules, training, or their parent), or a zip file
--op NAME ...  only these operators (add), files (add.extra), modules (Linear), or of the training
               files random, optim, lr_scheduler, training, or an entry as optim.SGD
--tier TIER    only the operators of this tier; all is the default
--device NAME  run on this device, as cuda:0, in place of the CPU; mock is a device for tests
--verbose      every failed case, not only the first of each operator, and every case that passes
               outside the default tolerance: by the exact result, or by a listed tolerance
--list-absent  only name the operators that have cases and do not exist, one a line
--share I/N    only the Ith, from 0, of N parts of the files of operators and modules
--bits FILE    write a sum of the bits of all results there, a line for each name and dtype, for comparison between systems
--threads N    files run at the same time; 1 is the default
special        special functions, and elementary ones of complex numbers, at points with true values: the
               largest error of each region, beside other libraries'; with --verbose also where it is
sparse         sparse tensors: results, gradients, refused calls and prints, in several arrangements of each operand, on the
               CPU or --device; --only keeps these names, or those that contain a text that is none of them; --share
               only the Ith, from 0, of N parts of the cases
points         results and gradients at ties, corners, bounds, zeros, infinities, nan and extremes: for each name the
               number of points, and those that differ; --only keeps these names, --verbose tells every difference
vision         torchvision's cases in a directory or an archive: models, operators or transforms; --only keeps those
               whose name contains one of the texts, --max-params the models of at most so many parameters
text           transformers' and tokenizers' cases in a directory or an archive, and scores of texts
pretrained     real weights of other people: DIR has reference.json, W the files, W/NAME/FILE; a model without its
               files is skipped, and the report says how to get them; --only keeps the models of these names
pack           write an archive that the tests run: the core tier of operators, or, of a directory
               without operators, all modules, training files, special functions, texts or sparse tensors
operators      write the page of operators, or check that it is current
book           write the book's page of PyTorch's names, which is made from the code, or check it;
               DOCS is the folder docs, and --doc what cargo doc made, target/doc unless given";

/// What the arguments ask for.
#[derive(Clone, Debug)]
pub enum Command {
    /// Print the usage.
    Help,
    /// Run cases.
    Run {
        /// Where they are.
        source: PathBuf,
        /// Which.
        options: Options,
        /// On which device, where not on the executor's own.
        device: Option<String>,
        /// The file for sums of bits.
        bits: Option<PathBuf>,
        /// Tell every failed case.
        verbose: bool,
        /// Only name absent operators.
        list_absent: bool,
    },
    /// Write or check the page of operators.
    Operators {
        /// The page.
        file: PathBuf,
        /// Only compare it.
        check: bool,
    },
    /// Write or check the book's page of PyTorch's names.
    Book {
        /// The folder of pages.
        docs: PathBuf,
        /// What rustdoc made.
        rustdoc: PathBuf,
        /// Only compare and check it.
        check: bool,
    },
    /// Measure special functions.
    Special {
        /// Where the points are.
        source: PathBuf,
        /// Tell where the largest errors are.
        verbose: bool,
    },
    /// Compare sparse tensors.
    Sparse {
        /// Where the cases are.
        source: PathBuf,
        /// Which cases, and on which device.
        options: crate::sparse::Options,
    },
    /// Compare at special points.
    Points {
        /// Where the points are.
        source: PathBuf,
        /// Which names.
        options: crate::points::Options,
    },
    /// Compare with torchvision.
    Vision {
        /// The directory that has `models` and `ops`.
        source: PathBuf,
        /// Which cases.
        options: crate::vision::Options,
    },
    /// Compare with transformers and tokenizers.
    Text {
        /// The directory that has `architectures.json`.
        source: PathBuf,
        /// Which cases.
        options: crate::text::Options,
    },
    /// Compare with PyTorch on pretrained weights.
    Pretrained {
        /// The directory that has `reference.json`.
        source: PathBuf,
        /// Which models, and where their weights are.
        options: crate::pretrained::Options,
    },
    /// Write an archive.
    Pack {
        /// Where the cases are.
        source: PathBuf,
        /// The archive.
        to: PathBuf,
    },
}

impl Command {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(args: &[String]) -> Result<Command, String> {
        if args.iter().any(|a| a == "--help" || a == "-h") {
            return Ok(Command::Help);
        }
        if args.first().is_some_and(|a| a == "pack") {
            return match args {
                [_, source, to] => Ok(Command::Pack {
                    source: source.into(),
                    to: to.into(),
                }),
                _ => Err("pack takes a directory and the archive to write".to_string()),
            };
        }
        if args.first().is_some_and(|a| a == "special") {
            return match &args[1..] {
                [source] | [source, _] if source.starts_with('-') => {
                    Err(format!("special takes a directory first, not {source}"))
                }
                [source] => Ok(Command::Special {
                    source: source.into(),
                    verbose: false,
                }),
                [source, flag] if flag == "--verbose" => Ok(Command::Special {
                    source: source.into(),
                    verbose: true,
                }),
                _ => Err("special takes a directory, and perhaps --verbose".to_string()),
            };
        }
        if args.first().is_some_and(|a| a == "sparse") {
            let (source, options) = crate::sparse::Options::parse(&args[1..])?;
            return Ok(Command::Sparse { source, options });
        }
        if args.first().is_some_and(|a| a == "points") {
            let (source, options) = crate::points::Options::parse(&args[1..])?;
            return Ok(Command::Points { source, options });
        }
        if args.first().is_some_and(|a| a == "vision") {
            let (source, options) = crate::vision::parse(&args[1..])?;
            return Ok(Command::Vision { source, options });
        }
        if args.first().is_some_and(|a| a == "text") {
            let (source, options) = crate::text::parse(&args[1..])?;
            return Ok(Command::Text { source, options });
        }
        if args.first().is_some_and(|a| a == "pretrained") {
            let (source, options) = crate::pretrained::Options::parse(&args[1..])?;
            return Ok(Command::Pretrained { source, options });
        }
        if args.first().is_some_and(|a| a == "operators") {
            return match &args[1..] {
                [flag, file] if flag == "--check" => Ok(Command::Operators {
                    file: file.into(),
                    check: true,
                }),
                [file] if file != "--check" => Ok(Command::Operators {
                    file: file.into(),
                    check: false,
                }),
                _ => Err("operators takes the file to write, or --check and the file".to_string()),
            };
        }
        if args.first().is_some_and(|a| a == "book") {
            return book_command(&args[1..]);
        }
        let (mut source, mut options) = (None, Options::default());
        let (mut verbose, mut list_absent, mut device, mut bits) = (false, false, None, None);
        let mut args = args.iter().peekable();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--op" => {
                    let before = options.ops.len();
                    while let Some(name) = args.next_if(|a| !a.starts_with("--")) {
                        options.ops.push(name.clone());
                    }
                    if options.ops.len() == before {
                        return Err("--op needs a name".to_string());
                    }
                }
                "--tier" => {
                    options.tier = match args.next().map(String::as_str) {
                        Some("core") => Some(Tier::Core),
                        Some("full") => Some(Tier::Full),
                        Some("all") => None,
                        Some(other) => return Err(format!("no tier {other}: core, full or all")),
                        None => return Err("--tier needs core, full or all".to_string()),
                    }
                }
                "--threads" => {
                    let n = args.next().and_then(|n| n.parse().ok()).filter(|&n| n > 0);
                    options.threads = n.ok_or("--threads needs a number of at least 1")?;
                }
                "--share" => {
                    options.share = Some(crate::section::share(args.next())?);
                }
                "--device" => {
                    let name = args.next_if(|a| !a.starts_with("--"));
                    device = Some(
                        name.ok_or("--device needs a name, as mock or cuda:0")?
                            .clone(),
                    );
                }
                "--bits" => {
                    let file = args.next_if(|a| !a.starts_with("--"));
                    bits = Some(file.ok_or("--bits needs a file")?.into());
                }
                "--verbose" => verbose = true,
                "--list-absent" => list_absent = true,
                flag if flag.starts_with('-') => return Err(format!("no flag {flag}")),
                path if source.is_none() => source = Some(PathBuf::from(path)),
                more => return Err(format!("one directory, not also {more}")),
            }
        }
        let source = source.ok_or("a directory of golden cases is missing")?;
        if device.is_some() && options.threads > 1 {
            return Err(
                "--threads is 1 with --device: an error that a device reports later goes to the \
                 thread that waits first"
                    .to_string(),
            );
        }
        Ok(Command::Run {
            source,
            options,
            device,
            bits,
            verbose,
            list_absent,
        })
    }
}

fn book_command(args: &[String]) -> Result<Command, String> {
    let (mut docs, mut rustdoc, mut check) = (None, PathBuf::from("target/doc"), false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--check" => check = true,
            "--doc" => rustdoc = args.next().ok_or("--doc needs a folder")?.into(),
            flag if flag.starts_with('-') => return Err(format!("book has no flag {flag}")),
            folder if docs.is_none() => docs = Some(PathBuf::from(folder)),
            more => return Err(format!("book takes one folder, not also {more}")),
        }
    }
    Ok(Command::Book {
        docs: docs.ok_or("book takes the folder of pages")?,
        rustdoc,
        check,
    })
}

/// Does what the arguments ask for; returns the exit code: 0 if nothing failed, 1 if a case did,
/// 2 if nothing could be run.
pub fn main(args: &[String], executor: &dyn Executor) -> u8 {
    let done = match Command::parse(args) {
        Err(e) => {
            eprintln!("{e}\n\n{USAGE}");
            return 2;
        }
        Ok(Command::Help) => {
            println!("{USAGE}");
            Ok(0)
        }
        Ok(Command::Pack { source, to }) => packed(&source, &to),
        Ok(Command::Vision { source, options }) => {
            let source = Source::open(&source);
            source
                .and_then(|source| crate::vision::run(&source, &options))
                .map(|report| {
                    print!("{}", report.text(options.verbose));
                    u8::from(!report.failed.is_empty())
                })
        }
        Ok(Command::Text { source, options }) => Source::open(&source)
            .and_then(|source| crate::text::run(&source, &options))
            .map(|report| {
                print!("{}", report.text(options.verbose));
                u8::from(!report.failed.is_empty())
            }),
        Ok(Command::Pretrained { source, options }) => crate::pretrained::run(&source, &options)
            .map(|report| {
                print!("{}", report.text(options.verbose));
                u8::from(!report.failed.is_empty())
            }),
        Ok(Command::Special { source, verbose }) => Source::open(&source)
            .and_then(|source| crate::special::run(&source, executor))
            .map(|report| {
                print!("{}", report.text(verbose));
                u8::from(!report.passes())
            }),
        Ok(Command::Sparse { source, options }) => {
            on_device(options.device.as_deref(), executor, &|executor| {
                let source = Source::open_section(&source, "sparse")?;
                crate::sparse::run(&source, executor, &options)
            })
            .map(|report| {
                print!("{}", report.text(options.cases.verbose));
                u8::from(report.failed() > 0)
            })
        }
        Ok(Command::Points { source, options }) => Source::open(&source)
            .and_then(|source| crate::points::run(&source, executor, &options))
            .map(|report| {
                print!("{}", report.text(options.verbose));
                u8::from(!report.passes())
            }),
        Ok(Command::Operators { file, check }) => operators(&file, check),
        Ok(Command::Book {
            docs,
            rustdoc,
            check,
        }) => book(&docs, &rustdoc, check),
        Ok(Command::Run {
            source,
            options,
            device,
            bits,
            verbose,
            list_absent,
        }) => on_device(device.as_deref(), executor, &|executor| {
            let source = Source::open(&source)?;
            let Some(file) = &bits else {
                return runner::run(&source, executor, &options);
            };
            let recorder = Recorder::new(executor);
            let report = runner::run(&source, &recorder, &options)?;
            std::fs::write(file, recorder.text())
                .map_err(|e| format!("{}: {e}", file.display()))?;
            Ok(report)
        })
        .map(|report| {
            if list_absent {
                report.absent().iter().for_each(|name| println!("{name}"));
                return 0;
            }
            print!("{}", report.text(verbose));
            u8::from(report.failed() > 0)
        }),
    };
    done.unwrap_or_else(|e| {
        eprintln!("{e}");
        2
    })
}

/// Does something with the executor of a device, or with the given one.
fn on_device<T>(
    device: Option<&str>,
    executor: &dyn Executor,
    run: &dyn Fn(&dyn Executor) -> Result<T, String>,
) -> Result<T, String> {
    match device {
        Some(name) => run(&OnDevice::new(name)?),
        None => run(executor),
    }
}

fn operators(file: &Path, check: bool) -> Result<u8, String> {
    let page = crate::operators::page();
    written(file, &page, check, "operators").map(u8::from)
}

/// Writes a page, or tells whether it is out of date.
fn written(file: &Path, page: &str, check: bool, command: &str) -> Result<bool, String> {
    let fail = |e: std::io::Error| format!("{}: {e}", file.display());
    if !check {
        std::fs::write(file, page).map_err(fail)?;
        return Ok(false);
    }
    let there = std::fs::read_to_string(file).map_err(fail)?;
    if there == page {
        println!("{} is current", file.display());
        return Ok(false);
    }
    let line = there
        .lines()
        .zip(page.lines())
        .take_while(|(a, b)| a == b)
        .count()
        + 1;
    eprintln!(
        "{} is out of date from line {line}: run `torsh-conformance {command}`",
        file.display()
    );
    Ok(true)
}

fn book(docs: &Path, rustdoc: &Path, check: bool) -> Result<u8, String> {
    let made = crate::book::make(docs, rustdoc)?;
    for mistake in &made.wrong {
        eprintln!("{mistake}");
    }
    let differs = written(&made.file, &made.page, check, "book")?;
    Ok(u8::from(differs || !made.wrong.is_empty()))
}

fn packed(source: &Path, to: &Path) -> Result<u8, String> {
    let files = pack(&Source::open(source)?, to)?;
    let size = std::fs::metadata(to).map_err(|e| e.to_string())?.len();
    println!(
        "{}: {files} files of cases, {:.1} MB",
        to.display(),
        size as f64 / 1e6
    );
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Command, String> {
        let args: Vec<_> = text.split_whitespace().map(str::to_string).collect();
        Command::parse(&args)
    }

    #[test]
    fn arguments_are_understood() {
        let command =
            parse("cases --op add sub.extra --tier core --op mul --verbose --device mock --bits b")
                .unwrap();
        let Command::Run {
            source,
            options,
            device,
            bits,
            verbose,
            list_absent,
        } = command
        else {
            panic!("{command:?}");
        };
        assert_eq!(source, PathBuf::from("cases"));
        assert_eq!(options.ops, ["add", "sub.extra", "mul"]);
        assert_eq!(options.tier, Some(Tier::Core));
        assert!(verbose && !list_absent);
        assert_eq!(device.as_deref(), Some("mock"));
        assert_eq!(bits, Some("b".into()));
        assert!(matches!(parse("pack a b.zip"), Ok(Command::Pack { .. })));
        assert!(matches!(parse("a --help"), Ok(Command::Help)));
        let Ok(Command::Book {
            docs,
            rustdoc,
            check,
        }) = parse("book --check --doc made docs")
        else {
            panic!("book");
        };
        assert_eq!((docs, rustdoc, check), ("docs".into(), "made".into(), true));
    }

    #[test]
    fn bad_arguments_are_named() {
        for (text, part) in [
            ("", "directory"),
            ("a b", "also b"),
            ("a --what", "--what"),
            ("a --tier half", "half"),
            ("a --op --verbose", "--op"),
            ("a --threads 0", "--threads"),
            ("a --device --verbose", "--device"),
            ("a --bits --verbose", "--bits"),
            ("a --device mock --threads 2", "--threads"),
            ("pack a", "pack"),
            ("text", "architectures"),
            ("text a models", "no models"),
            ("text a metrics --max-params 3", "--max-params"),
            ("text a metrics --only", "--only"),
            ("pretrained", "reference.json"),
            ("pretrained a --only bert", "no model bert"),
            ("pretrained a --only --verbose", "--only"),
            ("pretrained a --weights", "--weights"),
            ("pretrained a --what", "--what"),
            ("pretrained a b", "also b"),
            ("sparse", "directory"),
            ("sparse --only mm", "directory"),
            ("sparse a --only", "--only"),
            ("sparse a --what", "--what"),
            ("sparse a --device", "--device"),
            ("book", "folder"),
            ("book --doc", "--doc"),
            ("book a b", "also b"),
            ("book --what", "--what"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
