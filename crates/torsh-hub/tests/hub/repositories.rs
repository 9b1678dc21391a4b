//! Files of repositories, from a server that answers as the Hugging Face Hub does.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use torsh_hub::{Checksum, LoadStateDict, Repo, Token};
use torsh_nn::StateDict;
use torsh_tensor::tensor;

use crate::server::{Asked, Reply, Server, file};
use crate::{Scratch, builder, content, kind, sha256};

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A repository's files: large ones have their SHA-256 as ETag and come from elsewhere.
pub struct Files {
    pub files: BTreeMap<String, Vec<u8>>,
    pub large: Option<String>,
}

impl Files {
    pub fn new(files: &[(&str, &[u8])]) -> Files {
        let files = files
            .iter()
            .map(|(name, bytes)| (name.to_string(), bytes.to_vec()));
        Files {
            files: files.collect(),
            large: None,
        }
    }

    pub fn answer(&self, asked: &Asked, repo: &str) -> Reply {
        let path = asked.path.split('?').next().unwrap();
        if path.starts_with(&format!("/api/models/{repo}/revision/")) {
            let names: Vec<_> = self
                .files
                .keys()
                .map(|name| serde_json::json!({ "rfilename": name }))
                .collect();
            let list = serde_json::json!({ "sha": COMMIT, "siblings": names });
            return Reply::new(200, list.to_string());
        }
        let rest = path.strip_prefix(&format!("/{repo}/resolve/"));
        let Some((_, name)) = rest.and_then(|rest| rest.split_once('/')) else {
            return Reply::new(404, "").field("x-error-code", "RepoNotFound");
        };
        let Some(bytes) = self.files.get(name) else {
            return Reply::new(404, "").field("x-error-code", "EntryNotFound");
        };
        match &self.large {
            Some(elsewhere) if name.ends_with(".safetensors") => Reply::new(302, "")
                .field("location", format!("{elsewhere}/{name}"))
                .field("x-repo-commit", COMMIT)
                .field("x-linked-etag", format!("\"{}\"", sha256(bytes)))
                .field("x-linked-size", bytes.len()),
            _ => file(asked, bytes, &git_hash(bytes)).field("x-repo-commit", COMMIT),
        }
    }
}

/// The name that git gives a file, from the error of a check against another.
pub fn git_hash(bytes: &[u8]) -> String {
    let scratch = Scratch::new(&format!("git-{:?}", std::thread::current().id()));
    let path = scratch.path("blob");
    std::fs::write(&path, bytes).unwrap();
    let error = Checksum::git(&"0".repeat(40))
        .unwrap()
        .check(&path)
        .unwrap_err()
        .to_string();
    let at = error.find("SHA-1 of git ").unwrap() + 13;
    error[at..at + 40].to_string()
}

#[test]
fn git_hashes() {
    // `printf 'hello\n' | git hash-object --stdin`
    assert_eq!(
        git_hash(b"hello\n"),
        "ce013625030ba8dba906f756967f9e9ca394464a"
    );
}

#[test]
fn a_file_and_its_places() {
    let scratch = Scratch::new("places");
    let server = Server::new(|asked, _| {
        Files::new(&[("config.json", b"{\"a\": 1}"), ("sub/b.txt", b"b")]).answer(asked, "org/name")
    });
    let hub = builder(&scratch).endpoint(server.url("")).build().unwrap();
    let path = hub.file("org/name", "config.json").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"{\"a\": 1}");
    let repo = scratch.path("hf/models--org--name");
    assert_eq!(
        path,
        repo.join("snapshots").join(COMMIT).join("config.json")
    );
    // Windows may refuse links.
    if cfg!(unix) {
        let hash = git_hash(b"{\"a\": 1}");
        assert_eq!(
            std::fs::read_link(&path).unwrap(),
            PathBuf::from(format!("../../blobs/{hash}"))
        );
    }
    assert_eq!(
        std::fs::read_to_string(repo.join("refs/main")).unwrap(),
        COMMIT
    );
    let methods = || {
        server
            .asked()
            .iter()
            .map(|a| a.method.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(methods(), ["HEAD", "GET"]);

    // Whether it changed is asked, of a commit nothing.
    hub.file("org/name", "config.json").unwrap();
    assert_eq!(methods(), ["HEAD", "GET", "HEAD"]);
    let of_commit = Repo::parse("org/name").unwrap().revision(COMMIT).unwrap();
    hub.file(&of_commit, "config.json").unwrap();
    assert_eq!(server.asked().len(), 3);

    let nested = hub.file("org/name", "sub/b.txt").unwrap();
    #[cfg(unix)]
    assert!(
        std::fs::read_link(&nested)
            .unwrap()
            .starts_with("../../../blobs")
    );
    assert_eq!(std::fs::read(&nested).unwrap(), b"b");

    let error = hub.file("org/name", "none.txt").unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::NotFound), "{error}");
    assert!(error.to_string().contains("none.txt"), "{error}");
    let left: Vec<String> = scratch
        .files()
        .into_iter()
        .filter(|f| f.contains("incomplete") || f.contains("tmp"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn large_files_come_from_elsewhere_without_the_token() {
    let scratch = Scratch::new("large");
    let all = content(300_000);
    let store = Server::new({
        let all = all.clone();
        move |asked, n| match n {
            0 => file(asked, &all, "of-store").cut(100_000),
            _ => file(asked, &all, "of-store"),
        }
    });
    let server = Server::new({
        let (all, store) = (all.clone(), store.url("/store"));
        move |asked, _| {
            let files = Files {
                large: Some(store.clone()),
                ..Files::new(&[("model.safetensors", &all)])
            };
            files.answer(asked, "org/name")
        }
    });
    let hub = builder(&scratch)
        .endpoint(server.url(""))
        .token(Token::new("hf_secret"))
        .build()
        .unwrap();
    let path = hub.file("org/name", "model.safetensors").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), all);
    // A link to the blob, or the file itself on a Windows without links.
    let linked = path.canonicalize().unwrap().ends_with(sha256(&all));
    assert!(linked || cfg!(windows) && !path.is_symlink());
    assert!(
        server
            .asked()
            .iter()
            .all(|a| a.field("authorization") == Some("Bearer hf_secret"))
    );
    let asked = store.asked();
    assert_eq!(asked.len(), 2);
    assert!(
        asked
            .iter()
            .all(|a| a.field("authorization").is_none() && a.method == "GET")
    );
    assert_eq!(asked[1].from(), Some(100_000));
}

#[test]
fn a_large_file_with_another_hash_is_put_aside() {
    let scratch = Scratch::new("large-bad");
    let store = Server::new(|asked, _| file(asked, &content(1001)[1..], "x"));
    let server = Server::new({
        let store = store.url("/store");
        move |asked, _| {
            let files = Files {
                large: Some(store.clone()),
                ..Files::new(&[("model.safetensors", &content(1000))])
            };
            files.answer(asked, "org/name")
        }
    });
    let hub = builder(&scratch).endpoint(server.url("")).build().unwrap();
    let error = hub
        .file("org/name", "model.safetensors")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("SHA-256") && error.contains(".bad"),
        "{error}"
    );
    let sum = sha256(&content(1000));
    let left: Vec<String> = scratch
        .files()
        .into_iter()
        .filter(|f| !f.contains(".locks"))
        .collect();
    assert_eq!(left, [format!("hf/models--org--name/blobs/{sum}.bad")]);
    assert!(
        hub.cached()
            .unwrap()
            .iter()
            .all(|f| f.state == torsh_hub::State::Bad)
    );
}

#[test]
fn a_server_that_is_away_and_one_that_refuses() {
    let scratch = Scratch::new("away");
    let away = Arc::new(AtomicBool::new(false));
    let gone = Arc::new(AtomicBool::new(false));
    let server = Server::new({
        let (away, gone) = (away.clone(), gone.clone());
        move |asked, _| match (away.load(Ordering::SeqCst), gone.load(Ordering::SeqCst)) {
            (true, _) => Reply::new(503, ""),
            (_, true) => Reply::new(404, ""),
            _ => Files::new(&[("a.txt", b"a")]).answer(asked, "org/name"),
        }
    });
    let hub = builder(&scratch)
        .endpoint(server.url(""))
        .token(Token::new("hf_secret"))
        .build()
        .unwrap();
    let path = hub.file("org/name", "a.txt").unwrap();
    away.store(true, Ordering::SeqCst);
    assert_eq!(hub.file("org/name", "a.txt").unwrap(), path);
    assert_eq!(
        hub.snapshot("org/name", &[]).unwrap(),
        path.parent().unwrap()
    );
    let error = hub.file("org/name", "b.txt").unwrap_err().to_string();
    assert!(
        error.contains("503") && !error.contains("hf_secret"),
        "{error}"
    );
    away.store(false, Ordering::SeqCst);
    gone.store(true, Ordering::SeqCst);
    assert!(hub.file("org/name", "a.txt").is_err());
    let offline = builder(&scratch)
        .endpoint(server.url(""))
        .offline(true)
        .build()
        .unwrap();
    assert_eq!(offline.file("org/name", "a.txt").unwrap(), path);
    assert_eq!(offline.list_files("org/name", &[]).unwrap(), ["a.txt"]);
}

#[test]
fn snapshots_of_patterns() {
    let scratch = Scratch::new("snapshot");
    let server = Server::new(|asked, _| {
        let files = [
            ("README.md", &b"r"[..]),
            ("config.json", b"{}"),
            ("onnx/model.onnx", b"o"),
            ("sub/c.json", b"[]"),
        ];
        Files::new(&files).answer(asked, "org/name")
    });
    let hub = builder(&scratch).endpoint(server.url("")).build().unwrap();
    let folder = hub.snapshot("org/name@main", &["*.json"]).unwrap();
    assert!(folder.ends_with(COMMIT));
    assert!(folder.join("config.json").is_file() && folder.join("sub/c.json").is_file());
    assert!(!folder.join("README.md").exists());
    assert_eq!(
        hub.list_files("org/name", &["*.md", "onnx/*"]).unwrap(),
        ["README.md", "onnx/model.onnx"]
    );
    let error = hub
        .snapshot("org/name", &["*.bin"])
        .unwrap_err()
        .to_string();
    assert!(error.contains("none of the 4 files"), "{error}");
    // By the name of the revision when nobody can be asked.
    let offline = builder(&scratch)
        .endpoint(server.url(""))
        .offline(true)
        .build()
        .unwrap();
    assert_eq!(offline.snapshot("org/name", &["*.json"]).unwrap(), folder);
}

#[test]
fn servers_that_name_what_is_outside() {
    let scratch = Scratch::new("outside");
    for name in ["../../x", "/etc/x", "a/../../x", "a\\..\\x", "a\nb"] {
        let server = Server::new(move |asked, _| match asked.path.starts_with("/api/") {
            true => {
                let list =
                    serde_json::json!({ "sha": COMMIT, "siblings": [{ "rfilename": name }] });
                Reply::new(200, list.to_string())
            }
            false => Reply::new(200, "x")
                .field("x-repo-commit", COMMIT)
                .field("etag", "\"e\""),
        });
        let hub = builder(&scratch).endpoint(server.url("")).build().unwrap();
        let error = hub.snapshot("org/name", &[]).unwrap_err().to_string();
        assert!(error.contains("no path of a file"), "{error}");
        assert_eq!(server.asked().len(), 1);
    }
    // ETags and commits that are paths.
    let server = Server::new(|asked, _| {
        let _ = asked;
        Reply::new(200, "x")
            .field("etag", "\"../../../evil\"")
            .field("x-repo-commit", "../../../evil")
    });
    let hub = builder(&scratch).endpoint(server.url("")).build().unwrap();
    let path = hub.file("org/name", "a.txt").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"x");
    assert!(
        path.canonicalize()
            .unwrap()
            .starts_with(scratch.path("hf").canonicalize().unwrap())
    );
    assert!(
        scratch
            .files()
            .iter()
            .all(|f| f.starts_with("hf/") && !f.contains("evil")),
        "{:?}",
        scratch.files()
    );
    // A list without a commit, and what is no list.
    for text in [
        "{\"siblings\": []}",
        "{\"sha\": \"main\", \"siblings\": []}",
        "<html>",
        "[]",
    ] {
        let server = Server::new(move |_, _| Reply::new(200, text));
        let hub = builder(&scratch)
            .endpoint(server.url(""))
            .retries(0, Duration::ZERO)
            .build()
            .unwrap();
        assert!(hub.list_files("org/other", &[]).is_err(), "{text}");
    }
}

#[test]
fn names_of_repositories() {
    for good in [
        "gpt2",
        "org/name",
        "org/name@v1.0",
        "datasets/org/name",
        "org/na.me_1-x@refs/pr/3",
    ] {
        assert!(Repo::parse(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "/",
        "a/b/c",
        "../a",
        "a/..",
        "org/na me",
        "org/name@",
        "org/name@../x",
        "a//b",
        "-a/b",
        "org/a--b",
        "https://x/y",
    ] {
        let error = Repo::parse(bad).unwrap_err().to_string();
        assert!(
            error.contains("no name") || error.contains("no revision"),
            "{bad}: {error}"
        );
    }
    let repo = Repo::parse("datasets/org/name@v1").unwrap();
    assert_eq!(repo.to_string(), "datasets/org/name@v1");
}

#[test]
fn weights_of_a_repository_in_shards() {
    let scratch = Scratch::new("shards");
    let dir = scratch.path("made");
    std::fs::create_dir_all(&dir).unwrap();
    let save = |name: &str, state: StateDict| {
        state.save(dir.join(name)).unwrap();
        std::fs::read(dir.join(name)).unwrap()
    };
    let one = save(
        "one.safetensors",
        StateDict::from([("a", tensor![1.0, 2.0])]),
    );
    let two = save("two.safetensors", StateDict::from([("b", tensor![3.0])]));
    let index = serde_json::json!({
        "metadata": { "total_size": 12 },
        "weight_map": { "a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors" },
    })
    .to_string();
    let server = Server::new(move |asked, _| {
        let files = [
            ("model.safetensors.index.json", index.as_bytes()),
            ("model-00001-of-00002.safetensors", &one),
            ("model-00002-of-00002.safetensors", &two),
        ];
        Files::new(&files).answer(asked, "org/name")
    });
    let hub = builder(&scratch).endpoint(server.url("")).build().unwrap();
    let state = hub
        .load_state_dict("org/name", LoadStateDict::new())
        .unwrap();
    assert_eq!(state.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(
        (&state["a"], &state["b"]),
        (&tensor![1.0, 2.0], &tensor![3.0])
    );
    // Everything is there: again without the server, which is asked once.
    let unreachable = Server::new(|_, _| Reply::new(503, ""));
    for endpoint in [unreachable.url(""), "http://127.0.0.1:9".to_string()] {
        let cached = builder(&scratch)
            .endpoint(endpoint)
            .retries(0, Duration::ZERO)
            .build()
            .unwrap();
        let state = cached.load_state_dict("org/name", LoadStateDict::new());
        assert_eq!(state.unwrap()["b"], tensor![3.0]);
        // What the cache has never heard of may be there or not.
        let error = cached
            .load_state_dict("org/other", LoadStateDict::new())
            .unwrap_err();
        assert_ne!(kind(&error), Some(ErrorKind::NotFound), "{error}");
    }
    assert_eq!(unreachable.asked().len(), 2);
    let offline = builder(&scratch)
        .endpoint(server.url(""))
        .offline(true)
        .build()
        .unwrap();
    drop(server);
    assert_eq!(
        offline
            .load_state_dict("org/name", LoadStateDict::new())
            .unwrap()
            .len(),
        2
    );
    let error = offline
        .load_state_dict("org/none", LoadStateDict::new())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("pytorch_model.bin") && error.contains("looked for"),
        "{error}"
    );
    for path in ["./none", "/none/at/all", "none.safetensors"] {
        let error = offline
            .load_state_dict(path, LoadStateDict::new())
            .unwrap_err();
        assert_eq!(kind(&error), Some(ErrorKind::NotFound), "{error}");
        assert!(error.to_string().contains("no file or folder"), "{error}");
    }
}

/// "Not there" and "not reachable" are two things, as for `huggingface_hub`.
#[test]
fn optional_files_without_a_server() {
    let scratch = Scratch::new("optional");
    let server = Server::new(|asked, _| {
        let mut reply = Files::new(&[("config.json", b"{}"), ("pytorch_model.bin", b"weights")])
            .answer(asked, "org/name");
        if reply.status == 404 {
            // As the Hugging Face Hub answers for a file of a revision that is there.
            reply = reply.field("x-repo-commit", COMMIT);
        }
        reply
    });
    let online = builder(&scratch).endpoint(server.url("")).build().unwrap();
    assert_eq!(online.optional_file("org/name", "none.json").unwrap(), None);
    let error = online.file("org/name", "none.json").unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::NotFound), "{error}");
    let marker = scratch.path(&format!(
        "hf/models--org--name/.no_exist/{COMMIT}/none.json"
    ));
    assert!(marker.is_file());
    let config = online.optional_file("org/name", "config.json").unwrap();
    assert!(config.as_ref().is_some_and(|path| path.is_file()));
    let weights = online.checkpoint("org/name").unwrap();
    assert!(weights.ends_with("pytorch_model.bin"));
    // The list of cached files has no markers.
    let cached = online.cached().unwrap();
    assert!(cached.iter().all(|file| file.name != "none.json"));

    drop(server);
    let alone = builder(&scratch)
        .endpoint("http://127.0.0.1:9")
        .retries(0, Duration::ZERO)
        .build()
        .unwrap();
    assert_eq!(
        alone.optional_file("org/name", "config.json").unwrap(),
        config
    );
    // Its server said once that it is not there.
    assert_eq!(alone.optional_file("org/name", "none.json").unwrap(), None);
    let error = alone.file("org/name", "none.json").unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::NotFound), "{error}");
    // Nobody asked for this one: the model is in the cache, and loads without it.
    assert_eq!(alone.optional_file("org/name", "other.json").unwrap(), None);
    let error = alone.file("org/name", "other.json").unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::ConnectionRefused), "{error}");
    assert_eq!(alone.checkpoint("org/name").unwrap(), weights);
    // Of a repository that is not in the cache nothing is known.
    let error = alone.optional_file("org/other", "config.json").unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::ConnectionRefused), "{error}");
    let of_commit = format!("org/name@{COMMIT}");
    assert_eq!(
        alone.optional_file(&of_commit[..], "none.json").unwrap(),
        None
    );
}
