//! A process that is killed while it saves never damages the checkpoint that was there before.

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use torsh_nn::{Linear, ModuleExt};
use torsh_optim::{Optimizer, SGD};
use torsh_tensor::no_grad;
use torsh_train::Checkpoint;

const KILLS: usize = 100;

fn filled(net: &Linear, value: f64) {
    no_grad(|| {
        for p in net.parameters() {
            p.fill_(value)?;
            p.set_grad(Some(p.mul(0.0)?.detach()))?;
        }
        Ok(())
    })
    .unwrap();
}

/// The process that saves, again and again; it is this test, started by the one below.
#[test]
fn saves_until_it_is_killed() {
    let Ok(path) = std::env::var("TORSH_SAVE_UNTIL_KILLED") else {
        return;
    };
    let folder = std::env::var_os("TORSH_SAVE_FOLDER").is_some();
    let path = PathBuf::from(path);
    let net = Linear::new(128, 256);
    let sgd = SGD::builder(net.parameters())
        .lr(0.1)
        .momentum(0.9)
        .build()
        .unwrap();
    let mut step = Checkpoint::load(&path).map_or(0, |c| c.step);
    loop {
        step += 1;
        filled(&net, step as f64);
        sgd.set_lr(step as f64);
        sgd.step().unwrap();
        filled(&net, step as f64);
        let made = Checkpoint::builder()
            .model(&net)
            .optimizer(&sgd)
            .rng()
            .build();
        let made = made.unwrap().step(step);
        println!("saving {step}");
        match folder {
            true => made.save_folder(&path).unwrap(),
            false => made.save(&path).unwrap(),
        }
        println!("saved {step}");
    }
}

/// The step of the checkpoint at `path`, all parts of which must be of that step.
fn whole(path: &Path) -> usize {
    let net = Linear::new(128, 256);
    let sgd = SGD::builder(net.parameters())
        .lr(0.1)
        .momentum(0.9)
        .build()
        .unwrap();
    let parts = Checkpoint::builder().model(&net).optimizer(&sgd).rng();
    let step = parts.load(path).unwrap().step;
    for p in net.parameters() {
        assert!(p.to_vec::<f64>().unwrap().iter().all(|&v| v == step as f64));
    }
    assert_eq!(sgd.get_lr(), step as f64);
    step
}

/// What the process that saves says.
enum Sign {
    Saving,
    Saved(usize),
}

fn kill(name: &str, folder: bool) {
    let place = std::env::temp_dir().join(format!("torsh-killed-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let path = place.join("checkpoint.pt");
    let mut before = 0;
    let mut on_the_way = 0;
    for i in 0..KILLS {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                "killed::saves_until_it_is_killed",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("TORSH_SAVE_UNTIL_KILLED", &path)
            .stdout(Stdio::piped());
        if folder {
            command.env("TORSH_SAVE_FOLDER", "1");
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = move || loop {
            let line = lines.next()?.ok()?;
            if line.contains("saving ") {
                break Some(Sign::Saving);
            }
            if let Some((_, step)) = line.rsplit_once("saved ") {
                break Some(Sign::Saved(step.parse().ok()?));
            }
        };
        // The first saving says how long one takes on this machine now; the second is killed, at any moment of it or
        // shortly after it.
        assert!(matches!(next(), Some(Sign::Saving)));
        let start = Instant::now();
        let Some(Sign::Saved(mut last)) = next() else {
            panic!("the first saving of kill {i} did not end");
        };
        let one = start.elapsed();
        assert!(matches!(next(), Some(Sign::Saving)));
        let random = (RandomState::new().hash_one(i) % 1000) as u32;
        std::thread::sleep(one * random / 800);
        child.kill().unwrap();
        child.wait().unwrap();
        while let Some(sign) = next() {
            if let Sign::Saved(step) = sign {
                last = step;
            }
        }
        let step = whole(&path);
        assert!(
            step == last || step == last + 1,
            "{step} after {last} in kill {i}"
        );
        assert!(step > before, "{step} after {before} in kill {i}");
        before = step;
        let left = |e: &std::fs::DirEntry| e.file_name().to_string_lossy().ends_with(".tmp");
        let entries: Vec<_> = std::fs::read_dir(&place)
            .unwrap()
            .map(|e| e.unwrap())
            .collect();
        let leftovers: Vec<_> = entries.iter().filter(|e| left(e)).collect();
        on_the_way += usize::from(!leftovers.is_empty());
        for e in leftovers {
            let _ = std::fs::remove_file(e.path());
            let _ = std::fs::remove_dir_all(e.path());
        }
    }
    std::fs::remove_dir_all(&place).unwrap();
    // Else the kills tested nothing.
    assert!(
        on_the_way > KILLS / 20,
        "{on_the_way} of {KILLS} kills hit a saving"
    );
    println!("{on_the_way} of {KILLS} kills hit a saving");
}

#[test]
fn a_killed_process_leaves_a_whole_file() {
    kill("file", false);
}

#[test]
fn a_killed_process_leaves_a_whole_folder() {
    kill("folder", true);
}
