//! The folders of PyTorch and the Hugging Face libraries: listed, checked, removed; and as Python writes them.

use std::io::ErrorKind;

use torsh_hub::{State, Store, UrlOptions};

use crate::repositories::{COMMIT, git_hash};
use crate::{Scratch, builder, content, hub, kind, sha256};

/// Whether `huggingface_hub` has links here. It has none on Windows, where they need the developer mode.
const LINKS: bool = cfg!(unix);

/// Writes caches as `torch.hub` and `huggingface_hub` do.
fn by_python(scratch: &Scratch) {
    let repo = scratch.path("hf/models--org--name");
    let weights = content(5000);
    for (name, bytes, blob) in [
        ("config.json", &b"{}"[..], git_hash(b"{}")),
        ("sub/model.safetensors", &weights, sha256(&weights)),
    ] {
        std::fs::create_dir_all(repo.join("blobs")).unwrap();
        if LINKS {
            std::fs::write(repo.join("blobs").join(&blob), bytes).unwrap();
        }
        let link = repo.join("snapshots").join(COMMIT).join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        let up = "../".repeat(2 + name.matches('/').count());
        #[cfg(unix)]
        std::os::unix::fs::symlink(format!("{up}blobs/{blob}"), link).unwrap();
        #[cfg(not(unix))]
        let _ = (up, std::fs::write(link, bytes).unwrap());
    }
    std::fs::create_dir_all(repo.join("refs")).unwrap();
    std::fs::write(repo.join("refs/main"), COMMIT).unwrap();
    std::fs::create_dir_all(repo.join(".no_exist").join(COMMIT)).unwrap();
    std::fs::write(repo.join("blobs/abc.incomplete"), "half").unwrap();
    std::fs::write(scratch.path("hf/version.txt"), "1").unwrap();
    std::fs::create_dir_all(scratch.path("hf/.locks/models--org--name")).unwrap();
    let checkpoints = scratch.path("torch/hub/checkpoints");
    std::fs::create_dir_all(&checkpoints).unwrap();
    let name = format!("net-{}.pth", &sha256(b"weights")[..8]);
    std::fs::write(checkpoints.join(name), b"weights").unwrap();
    std::fs::write(checkpoints.join("other.pth"), b"other").unwrap();
    std::fs::write(checkpoints.join("net-00000000.pth"), b"damaged").unwrap();
}

#[test]
fn what_python_wrote_is_found() {
    let scratch = Scratch::new("python");
    by_python(&scratch);
    let offline = builder(&scratch).offline(true).build().unwrap();
    let path = offline.file("org/name", "sub/model.safetensors").unwrap();
    assert_eq!(std::fs::read(path).unwrap(), content(5000));
    assert_eq!(
        offline.list_files("org/name", &[]).unwrap(),
        ["config.json", "sub/model.safetensors"]
    );
    let commit = format!("org/name@{COMMIT}");
    assert!(offline.file(commit.as_str(), "config.json").is_ok());
    assert!(offline.file("org/name@v2", "config.json").is_err());

    let files = hub(&scratch).cached().unwrap();
    let named = |name: &str| files.iter().find(|f| f.name == name).unwrap();
    assert_eq!(files.len(), 6, "{files:?}");
    let config = named("config.json");
    assert_eq!(
        (config.store, config.repo.as_deref()),
        (Store::HuggingFace, Some("org/name"))
    );
    assert_eq!(
        (config.revision.as_deref(), &config.refs[..], config.size),
        (Some(COMMIT), &["main".to_string()][..], 2)
    );
    // The name of the blob is the checksum.
    for file in [config, named("sub/model.safetensors")] {
        assert_eq!(file.verify().unwrap(), LINKS);
    }
    assert_eq!(
        (named("abc").state, named("abc").verify().unwrap()),
        (State::Part, false)
    );
    assert!(!named("other.pth").verify().unwrap());
    let error = named("net-00000000.pth").verify().unwrap_err().to_string();
    assert!(
        error.contains("00000000") && error.contains(&sha256(b"damaged")),
        "{error}"
    );
    let right = files
        .iter()
        .filter(|f| f.store == Store::Torch && f.verify().is_ok_and(|checked| checked));
    assert_eq!(right.count(), 1);
}

#[test]
fn what_is_removed_is_gone() {
    let scratch = Scratch::new("remove");
    by_python(&scratch);
    let hub = hub(&scratch);
    assert_eq!(hub.remove_cached("other.pth").unwrap(), 5);
    assert_eq!(hub.remove_cached("org/name").unwrap(), 2 + 5000 + 4 + 40);
    assert!(!scratch.path("hf/models--org--name").exists());
    assert_eq!(hub.cached().unwrap().len(), 2);
    let error = hub.remove_cached("other.pth").unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::NotFound), "{error}");
    for name in ["..", "../x", "", "/"] {
        assert!(hub.remove_cached(name).is_err());
    }
    assert_eq!(crate::hub(&Scratch::new("empty")).cached().unwrap(), []);
}

#[test]
fn a_link_to_elsewhere_is_removed_and_not_followed() {
    let scratch = Scratch::new("links");
    std::fs::create_dir_all(scratch.path("precious")).unwrap();
    std::fs::write(scratch.path("precious/thesis.txt"), "years").unwrap();
    let snapshot = scratch.path("hf/models--org--name/snapshots").join(COMMIT);
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::write(snapshot.join("a.txt"), "a").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(scratch.path("precious"), snapshot.join("folder")).unwrap();
    let hub = hub(&scratch);
    assert_eq!(hub.cached().unwrap().len(), 1);
    hub.remove_cached("org/name").unwrap();
    assert!(scratch.path("precious/thesis.txt").exists());
}

#[test]
fn folders_are_those_of_the_options() {
    let scratch = Scratch::new("model-dir");
    std::fs::create_dir_all(scratch.path("mine")).unwrap();
    std::fs::write(scratch.path("mine/net.pth"), "x").unwrap();
    let options = UrlOptions::new()
        .model_dir(scratch.path("mine"))
        .file_name("net.pth");
    let path = hub(&scratch)
        .file_from_url("https://weights.invalid/whatever", options)
        .unwrap();
    assert_eq!(path, scratch.path("mine/net.pth"));
    assert_eq!(
        hub(&scratch).torch_dir().unwrap(),
        scratch.path("torch/hub")
    );
}
