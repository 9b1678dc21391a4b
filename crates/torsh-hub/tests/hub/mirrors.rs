//! Folders and servers that have copies.

use std::io::ErrorKind;

use torsh_hub::{Checksum, DownloadOptions, UrlOptions};

use crate::server::{Reply, Server, file};
use crate::{Scratch, builder, content, hub, kind, sha256};

#[test]
fn addresses_of_files_are_copied() {
    let scratch = Scratch::new("file-url");
    let all = content(300_000);
    std::fs::write(scratch.path("a b.bin"), &all).unwrap();
    let url = format!("file://{}/a%20b.bin", scratch.0.display());
    let to = scratch.path("copy.bin");
    let sum = Checksum::sha256(&sha256(&all)).unwrap();
    // A folder is no network.
    let hub = builder(&scratch).offline(true).build().unwrap();
    hub.download_url_to_file(&url, &to, DownloadOptions::new().checksum(sum))
        .unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), all);
    let cached = hub.file_from_url(&url, UrlOptions::new()).unwrap();
    assert_eq!(cached, scratch.path("torch/hub/checkpoints/a b.bin"));
    // The original stays where it is, whatever its hash.
    let wrong = DownloadOptions::new().checksum(Checksum::sha256("00000000").unwrap());
    assert!(
        hub.download_url_to_file(&url, scratch.path("no.bin"), wrong)
            .is_err()
    );
    assert_eq!(
        scratch.files(),
        ["a b.bin", "copy.bin", "torch/hub/checkpoints/a b.bin"]
    );
    let missing = format!("file://{}/none.bin", scratch.0.display());
    let error = hub
        .download_url_to_file(&missing, &to, DownloadOptions::new())
        .unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::NotFound), "{error}");
    assert!(error.to_string().contains("none.bin"), "{error}");
}

#[test]
fn a_mirror_is_asked_first() {
    let scratch = Scratch::new("mirror");
    let (by_path, by_name) = (content(1000), content(2000));
    std::fs::create_dir_all(scratch.path("mirror/weights.invalid/models")).unwrap();
    std::fs::write(
        scratch.path("mirror/weights.invalid/models/a.pth"),
        &by_path,
    )
    .unwrap();
    std::fs::write(scratch.path("mirror/b.pth"), &by_name).unwrap();
    let mirror = format!("file://{}", scratch.path("mirror").display());
    let hub = builder(&scratch)
        .mirror(&mirror)
        .offline(true)
        .build()
        .unwrap();
    let get = |url: &str| hub.file_from_url(url, UrlOptions::new());
    let a = get("https://weights.invalid/models/a.pth").unwrap();
    assert_eq!(std::fs::read(a).unwrap(), by_path);
    let b = get("https://weights.invalid/other/b.pth").unwrap();
    assert_eq!(std::fs::read(b).unwrap(), by_name);
    let error = get("https://weights.invalid/c.pth").unwrap_err();
    assert!(error.to_string().contains("HF_HUB_OFFLINE"), "{error}");
    // What it has is checked as well.
    std::fs::write(scratch.path("mirror/c-00000000.pth"), "x").unwrap();
    let error = get("https://weights.invalid/c-00000000.pth")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("00000000") && error.contains("SHA-256"),
        "{error}"
    );
}

#[test]
fn a_mirror_that_lacks_the_file_is_passed_over() {
    let scratch = Scratch::new("mirror-server");
    let mirror = Server::new(|asked, _| match asked.path.as_str() {
        "/copies/b.pth" => file(asked, b"copy", "m"),
        _ => Reply::new(404, ""),
    });
    let origin = Server::new(|asked, _| file(asked, b"original", "o"));
    let hub = builder(&scratch)
        .mirror(mirror.url("/copies/"))
        .build()
        .unwrap();
    let a = hub
        .file_from_url(&origin.url("/models/a.pth"), UrlOptions::new())
        .unwrap();
    assert_eq!(std::fs::read(a).unwrap(), b"original");
    let asked: Vec<String> = mirror.asked().into_iter().map(|a| a.path).collect();
    assert_eq!(asked, ["/copies/127.0.0.1/models/a.pth", "/copies/a.pth"]);
    let b = hub
        .file_from_url(&origin.url("/models/b.pth"), UrlOptions::new())
        .unwrap();
    assert_eq!(std::fs::read(b).unwrap(), b"copy");
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn an_endpoint_that_is_a_folder() {
    let scratch = Scratch::new("endpoint");
    for (path, text) in [
        ("org/name/config.json", "{}"),
        ("org/name/sub/a.txt", "main"),
        ("org/name/resolve/v2/sub/a.txt", "v2"),
        ("datasets/org/data/train.csv", "1,2"),
    ] {
        let path = scratch.path("mirror").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let endpoint = format!("file://{}", scratch.path("mirror").display());
    let hub = builder(&scratch)
        .endpoint(endpoint)
        .offline(true)
        .build()
        .unwrap();
    let read =
        |repo: &str, file: &str| std::fs::read_to_string(hub.file(repo, file).unwrap()).unwrap();
    assert_eq!(read("org/name", "sub/a.txt"), "main");
    assert_eq!(read("org/name@v2", "sub/a.txt"), "v2");
    assert_eq!(read("datasets/org/data", "train.csv"), "1,2");
    assert_eq!(
        hub.list_files("org/name", &[]).unwrap(),
        ["config.json", "sub/a.txt"]
    );
    assert_eq!(
        hub.list_files("org/name", &["*.txt"]).unwrap(),
        ["sub/a.txt"]
    );
    assert_eq!(
        hub.snapshot("org/name", &["sub/*"]).unwrap(),
        scratch.path("mirror/org/name")
    );
    let error = hub.file("org/name", "b.txt").unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::NotFound));
    let place: std::path::PathBuf = ["mirror", "org", "name", "b.txt"].iter().collect();
    assert!(
        error.to_string().contains(&place.display().to_string()),
        "{error}"
    );
    assert!(hub.list_files("org/none", &[]).is_err());
    for bad in [
        "../name/config.json",
        "/etc/passwd",
        "sub//a.txt",
        "sub/./a.txt",
        "",
    ] {
        let error = hub.file("org/name", bad).unwrap_err().to_string();
        assert!(error.contains("no path of a file"), "{error}");
    }
}

#[test]
fn offline_says_where_it_looked() {
    let scratch = Scratch::new("offline");
    let offline = builder(&scratch).offline(true).build().unwrap();
    let error = offline
        .file_from_url(
            "https://weights.invalid/a-12345678.pth?key=secret",
            UrlOptions::new(),
        )
        .unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::NotFound));
    let error = error.to_string().replace('\\', "/");
    assert!(
        error.contains("torch/hub/checkpoints/a-12345678.pth") && error.contains("HF_HUB_OFFLINE"),
        "{error}"
    );
    assert!(!error.contains("secret"), "{error}");
    let error = offline
        .file("org/name", "model.safetensors")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("models--org--name") && error.contains("model.safetensors"),
        "{error}"
    );
    // What is there is found.
    std::fs::create_dir_all(scratch.path("torch/hub/checkpoints")).unwrap();
    std::fs::write(
        scratch.path("torch/hub/checkpoints/a-12345678.pth"),
        "by Python",
    )
    .unwrap();
    let path = offline
        .file_from_url("https://weights.invalid/a-12345678.pth", UrlOptions::new())
        .unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), "by Python");
    // So does a hub that is online.
    assert!(
        hub(&scratch)
            .file_from_url("https://weights.invalid/a-12345678.pth", UrlOptions::new())
            .is_ok()
    );
}
