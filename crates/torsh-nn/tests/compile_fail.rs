//! What the derive refuses, with the messages a user sees. `TORSH_BLESS=1` writes the files that they are compared with.
//!
//! The compiler is called with the libraries that this program was built with. A project of its own, as the crate
//! `trybuild` makes, would check all dependencies again, which takes a minute.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn compiler() -> Command {
    Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
}

/// Compiles when the libraries belong together.
const PROBE: &str = "use torsh_core::Result;
use torsh_nn::Module;
use torsh_tensor::Tensor;
#[derive(Module)]
struct Net;
impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
}
fn main() {}
";

const CRATES: [&str; 3] = ["torsh_nn", "torsh_tensor", "torsh_core"];

/// The folder of the libraries, and one library of each crate.
struct Libraries {
    folder: PathBuf,
    of: [PathBuf; 3],
}

impl Libraries {
    /// The newest ones that belong together: builds with other features leave theirs in the same folder.
    fn find() -> io::Result<Libraries> {
        let folder = env::current_exe()?.parent().expect("a file").to_path_buf();
        let mut all = Vec::new();
        for name in CRATES {
            let start = format!("lib{name}-");
            let mut files = Vec::new();
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let file = entry.file_name().to_string_lossy().into_owned();
                if file.starts_with(&start) && file.ends_with(".rlib") {
                    files.push((entry.metadata()?.modified()?, entry.path()));
                }
            }
            files.sort();
            files.reverse();
            all.push(files);
        }
        let probe = folder.join("compile_fail_probe.rs");
        fs::write(&probe, PROBE)?;
        let mut last = String::from("there are no libraries");
        for (_, nn) in &all[0] {
            for (_, tensor) in &all[1] {
                for (_, core) in &all[2] {
                    let libraries = Libraries {
                        folder: folder.clone(),
                        of: [nn, tensor, core].map(Clone::clone),
                    };
                    last = libraries.compile(&probe)?;
                    if last.is_empty() {
                        return Ok(libraries);
                    }
                }
            }
        }
        panic!("{CRATES:?} in {}: {last}", folder.display());
    }

    /// What the compiler says of a file.
    fn compile(&self, file: &Path) -> io::Result<String> {
        let mut command = compiler();
        command
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"))
            .args([
                "--edition=2024",
                "--crate-type=bin",
                "--emit=metadata",
                "-Awarnings",
            ])
            .args(["--diagnostic-width=140", "--color=never"])
            .arg("--out-dir")
            .arg(env!("CARGO_TARGET_TMPDIR"))
            .arg("-L")
            .arg(format!("dependency={}", self.folder.display()));
        for (name, library) in CRATES.iter().zip(&self.of) {
            command
                .arg("--extern")
                .arg(format!("{name}={}", library.display()));
        }
        let output = command.arg(file).output()?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A line without what depends on the machine and on unrelated changes: indents and numbers of lines, places outside of the
/// test's own files, how many more types there are.
fn plain(line: &str) -> String {
    let line = line
        .trim_start()
        .trim_start_matches(|c: char| c.is_ascii_digit());
    let line = line.trim();
    if let Some(place) = line.strip_prefix("--> ")
        && !place.starts_with("tests/")
    {
        let from = place.find("src/").unwrap_or(0);
        let place = place[from..].split(".rs:").next().unwrap_or(place);
        return format!("--> {}", place.trim_end_matches(".rs"));
    }
    match line
        .strip_prefix("and ")
        .and_then(|l| l.strip_suffix(" others"))
    {
        Some(_) => "and N others".to_string(),
        None => line.to_string(),
    }
}

/// The diagnostics without the compiler's last words, and without the sources of the library, which are not always found.
fn diagnostics(text: &str) -> Vec<String> {
    let last_words = [
        "error: aborting due to",
        "For more information about",
        "Some errors have detailed explanations",
    ];
    let (mut said, mut outside) = (Vec::new(), false);
    for line in text.lines().map(plain) {
        if line.starts_with("--> ") {
            outside = !line.starts_with("--> tests/");
        } else if outside && line.starts_with('|') {
            continue;
        }
        let last = last_words.iter().any(|words| line.starts_with(words));
        if !last && !line.is_empty() && line != "|" {
            said.push(line);
        }
    }
    said
}

#[test]
fn refused_modules() -> io::Result<()> {
    if let Err(e) = compiler().arg("--version").output() {
        println!("left out: the compiler cannot be started: {e}");
        return Ok(());
    }
    let libraries = Libraries::find()?;
    let folder = Path::new("tests/compile_fail");
    let mut tried = 0;
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|e| e.map(|e| e.path()))
        .collect::<io::Result<_>>()?;
    entries.sort();
    for file in entries
        .iter()
        .filter(|f| f.extension().is_some_and(|e| e == "rs"))
    {
        let said = diagnostics(&libraries.compile(file)?);
        assert!(!said.is_empty(), "{} compiles", file.display());
        let expected = file.with_extension("stderr");
        if env::var_os("TORSH_BLESS").is_some() {
            fs::write(&expected, said.join("\n") + "\n")?;
        }
        let wanted = diagnostics(&fs::read_to_string(&expected)?);
        assert_eq!(said.join("\n"), wanted.join("\n"), "{}", file.display());
        tried += 1;
    }
    assert_eq!(tried, 7);
    Ok(())
}
