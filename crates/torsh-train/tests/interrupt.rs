//! Ctrl-C saves and stops; the run goes on from there.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use torsh_nn::{Linear, Module, ModuleExt};
use torsh_optim::SGD;
use torsh_tensor::{DType, Device, Result, Tensor};
use torsh_train::callbacks::{Callback, Context};
use torsh_train::{Checkpoint, Stop, Trainer};

/// Tells the parent how far it is.
struct Loud;

impl Callback for Loud {
    fn name(&self) -> &str {
        "loud"
    }
    fn on_batch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        println!("\nbatch {} step {}", cx.batch, cx.step);
        let own = std::env::var("TORSH_TRAIN_UNTIL_SIGNAL");
        if let Some(signal) = own.ok().filter(|_| cx.batch == 7) {
            signal_hook::low_level::raise(signal.parse().unwrap())?;
        }
        std::thread::sleep(Duration::from_millis(2));
        Ok(())
    }
}

fn trainer(path: &str) -> Result<Trainer<Linear, Tensor>> {
    let model = Linear::new(4, 1);
    let sgd = SGD::new(model.parameters(), 1e-3)?;
    Trainer::builder(model, &sgd)
        .training_step(|model: &Linear, x: &Tensor| Ok(model.forward(x)?.square()?.mean()?.into()))
        .on_interrupt(path)
        .accumulate(2)
        .callback(Loud)
        .epochs(1_000_000)
        .build()
}

fn loader() -> Result<torsh_data::DataLoader<torsh_data::TensorDataset<Tensor>>> {
    let x = Tensor::ones([1000, 4], DType::F32, Device::Cpu)?;
    torsh_data::DataLoader::builder(torsh_data::TensorDataset::of(x)).build()
}

/// The process that is interrupted; it is this test, started by the ones below.
#[test]
fn trains_until_it_is_interrupted() {
    let Ok(path) = std::env::var("TORSH_TRAIN_UNTIL_INTERRUPTED") else {
        return;
    };
    let mut trainer = trainer(&path).unwrap();
    let results = trainer.fit(&loader().unwrap(), None).unwrap();
    assert_eq!(results.stop, Stop::Interrupted);
    println!("\nstopped after {} steps", results.steps);
}

type Lines = std::io::Lines<BufReader<std::process::ChildStdout>>;

/// Starts the process. It sends itself the signal of this number after batch 7, where there is one.
fn start(path: &Path, own: Option<i32>) -> (Child, Lines) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "interrupt::trains_until_it_is_interrupted",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env("TORSH_TRAIN_UNTIL_INTERRUPTED", path);
    if let Some(signal) = own {
        command.env("TORSH_TRAIN_UNTIL_SIGNAL", signal.to_string());
    }
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

#[cfg(unix)] // Windows has no signals from outside; what a console sends goes to all of its programs.
fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

fn checkpoint(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("torsh-interrupt{name}-{}.pt", std::process::id()))
}

/// Reads what the process says after batch 7, and whether it left what goes on.
fn stopped_well(path: &Path, child: &mut Child, lines: Lines) {
    let rest: Vec<String> = lines.map(|l| l.unwrap()).collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
    let stopped = rest
        .iter()
        .find(|l| l.starts_with("stopped"))
        .expect("a clean end");
    let last = rest.iter().rev().find(|l| l.starts_with("batch"));
    let number = |l: &str, i: usize| l.split(' ').nth(i).unwrap().parse::<usize>().unwrap();
    let steps = number(stopped, 2);
    let saved = Checkpoint::load(path).unwrap();
    assert_eq!((saved.epoch, saved.step), (0, steps));
    let state = saved.part("trainer").unwrap().get("state").unwrap();
    let batch = state.get("batch").unwrap().as_int().unwrap() as usize;
    assert_eq!(batch, last.map_or(7, |l| number(l, 1)));
    assert_eq!(steps, batch / 2);

    // The run goes on with the next batch.
    let mut again = trainer(path.to_str().unwrap()).unwrap();
    again.resume(path).unwrap();
    again.set_max_steps(steps + 3);
    assert_eq!(
        again.fit(&loader().unwrap(), None).unwrap().steps,
        steps + 3
    );
    std::fs::remove_file(path).unwrap();
}

fn until_batch_7(lines: &mut Lines) {
    let mut lines = lines.map(|l| l.unwrap());
    assert!(lines.any(|l| l.starts_with("batch 7")));
}

#[test]
#[cfg(unix)] // See `signal`.
fn a_signal_saves_and_stops() {
    for name in ["-INT", "-TERM"] {
        let path = checkpoint(name);
        let (mut child, mut lines) = start(&path, None);
        until_batch_7(&mut lines);
        signal(&child, name);
        stopped_well(&path, &mut child, lines);
    }
}

/// The same on every system, with signals that the process raises itself. A console of Windows raises the last one.
#[test]
fn a_raised_signal_saves_and_stops() {
    let mut all = vec![signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
    if cfg!(windows) {
        all.push(21);
    }
    for number in all {
        let path = checkpoint(&number.to_string());
        let (mut child, mut lines) = start(&path, Some(number));
        until_batch_7(&mut lines);
        stopped_well(&path, &mut child, lines);
    }
}

/// A handle does what a signal does; what cannot be saved is an error.
#[test]
fn a_handle_stops_too() -> Result<()> {
    let path = std::env::temp_dir().join(format!("torsh-handle-{}.pt", std::process::id()));
    let mut trainer = trainer(path.to_str().unwrap())?;
    let handle = trainer.stop_handle();
    handle.stop();
    let results = trainer.fit(&loader()?, None)?;
    assert_eq!((results.stop, results.steps), (Stop::Interrupted, 0));
    assert_eq!(Checkpoint::load(&path)?.step, 0);
    // The gradients of the one batch are part of it.
    assert!(Checkpoint::load(&path)?.part("gradients").is_some());
    std::fs::remove_file(&path)?;

    if std::env::var_os("TORSH_TRAIN_UNTIL_INTERRUPTED").is_none() {
        let own = Some(signal_hook::consts::SIGINT);
        let (mut child, lines) = start(Path::new("/nowhere/at/all.pt"), own);
        lines.for_each(drop);
        assert!(!child.wait()?.success());
    }
    Ok(())
}
