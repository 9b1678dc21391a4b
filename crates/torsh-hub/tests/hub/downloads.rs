//! Files by their addresses: servers that break off, lie, hang, redirect and refuse.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use torsh_hub::{Cancel, Checksum, DownloadOptions, Token, UrlOptions};

use crate::server::{Reply, Server, file};
use crate::{Scratch, builder, content, hub, kind, sha256};

fn checked(content: &[u8]) -> DownloadOptions {
    DownloadOptions::new().checksum(Checksum::sha256(&sha256(content)).unwrap())
}

#[test]
fn a_file_comes_whole() {
    let scratch = Scratch::new("whole");
    let all = content(300_000);
    let server = Server::new({
        let all = all.clone();
        move |asked, _| file(asked, &all, "v1")
    });
    let to = scratch.path("new/folder/a.bin");
    hub(&scratch)
        .download_url_to_file(&server.url("/a.bin"), &to, checked(&all).size(300_000))
        .unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), all);
    assert_eq!(scratch.files(), ["new/folder/a.bin"]);
    assert_eq!(server.asked()[0].field("range"), None);
    // It is there and right: nobody is asked. Without a checksum it is fetched again.
    hub(&scratch)
        .download_url_to_file(&server.url("/a.bin"), &to, checked(&all))
        .unwrap();
    assert_eq!(server.asked().len(), 1);
    hub(&scratch)
        .download_url_to_file(&server.url("/a.bin"), &to, DownloadOptions::new())
        .unwrap();
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn a_connection_that_breaks_is_made_again_from_there() {
    let scratch = Scratch::new("resume");
    let all = content(500_000);
    let server = Server::new({
        let all = all.clone();
        move |asked, n| match n {
            0 => file(asked, &all, "v1").cut(200_000),
            1 => file(asked, &all, "v1").cut(100_000),
            _ => file(asked, &all, "v1"),
        }
    });
    let to = scratch.path("a.bin");
    hub(&scratch)
        .download_url_to_file(&server.url("/a.bin"), &to, checked(&all))
        .unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), all);
    let asked = server.asked();
    let from: Vec<_> = asked.iter().map(|a| a.from()).collect();
    assert_eq!(from, [None, Some(200_000), Some(300_000)]);
    assert_eq!(asked[1].field("if-range"), Some("\"v1\""));
    assert_eq!(scratch.files(), ["a.bin"]);
}

#[test]
fn the_next_call_goes_on_with_what_is_there() {
    let scratch = Scratch::new("later");
    let all = content(400_000);
    let version = Arc::new(AtomicUsize::new(1));
    let server = Server::new({
        let (all, version) = (all.clone(), version.clone());
        move |asked, n| {
            let v = version.load(Ordering::SeqCst);
            let mut all = all.clone();
            all[0] = v as u8;
            let reply = file(asked, &all, &format!("v{v}"));
            if n == 0 || n == 2 {
                reply.cut(150_000)
            } else {
                reply
            }
        }
    });
    let (url, to) = (server.url("/a.bin"), scratch.path("a.bin"));
    let impatient = || {
        builder(&scratch)
            .retries(0, Duration::ZERO)
            .build()
            .unwrap()
    };
    let error = impatient()
        .download_url_to_file(&url, &to, DownloadOptions::new())
        .unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::UnexpectedEof), "{error}");
    assert!(
        error.to_string().contains("goes on where this one ended"),
        "{error}"
    );
    assert!(!to.exists());
    impatient()
        .download_url_to_file(&url, &to, DownloadOptions::new())
        .unwrap();
    assert_eq!(server.asked()[1].from(), Some(150_000));
    assert_eq!(std::fs::read(&to).unwrap()[..2], [1, all[1]]);

    // The file changes while half of it is here: all of the new one is fetched.
    impatient()
        .download_url_to_file(&url, &to, DownloadOptions::new())
        .unwrap_err();
    version.store(2, Ordering::SeqCst);
    impatient()
        .download_url_to_file(&url, &to, DownloadOptions::new())
        .unwrap();
    assert_eq!(server.asked()[3].field("if-range"), Some("\"v1\""));
    let now = std::fs::read(&to).unwrap();
    assert_eq!((now.len(), now[0], &now[1..]), (400_000, 2, &all[1..]));
    assert_eq!(scratch.files(), ["a.bin"]);
}

#[test]
fn servers_that_cannot_go_on() {
    let all = content(200_000);
    // Knows no ranges.
    let scratch = Scratch::new("no-range");
    let server = Server::new({
        let all = all.clone();
        move |_, n| match n {
            0 => Reply::new(200, all.clone())
                .field("etag", "\"v1\"")
                .cut(70_000),
            _ => Reply::new(200, all.clone()),
        }
    });
    let to = scratch.path("a.bin");
    hub(&scratch)
        .download_url_to_file(&server.url("/a.bin"), &to, checked(&all))
        .unwrap();
    assert_eq!(server.asked().len(), 2);
    assert_eq!(std::fs::read(&to).unwrap(), all);

    // Sends another part than was asked for.
    let scratch = Scratch::new("wrong-range");
    let server = Server::new({
        let all = all.clone();
        move |asked, n| match n {
            0 => file(asked, &all, "v1").cut(70_000),
            1 => Reply::new(206, &all[10..])
                .field("content-range", format!("bytes 10-199999/{}", all.len())),
            _ => file(asked, &all, "v1"),
        }
    });
    let to = scratch.path("a.bin");
    hub(&scratch)
        .download_url_to_file(&server.url("/a.bin"), &to, DownloadOptions::new())
        .unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), all);
    assert_eq!(server.asked().last().unwrap().from(), None);
}

#[test]
fn a_part_that_is_all_or_too_long() {
    for (name, part, asked) in [("all", 100_000, 1), ("too-long", 120_000, 2)] {
        let scratch = Scratch::new(name);
        let all = content(100_000);
        let server = Server::new({
            let all = all.clone();
            move |asked, _| file(asked, &all, "v1")
        });
        // As a process leaves it that ends before the file has its name.
        let mut there = all.clone();
        there.resize(part, 0);
        std::fs::write(scratch.path(".a.bin.part"), there).unwrap();
        let to = scratch.path("a.bin");
        hub(&scratch)
            .download_url_to_file(&server.url("/a.bin"), &to, checked(&all))
            .unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), all, "{name}");
        assert_eq!(server.asked().len(), asked, "{name}");
        assert_eq!(server.asked()[0].from(), Some(part));
        assert_eq!(scratch.files(), ["a.bin"]);
    }
}

#[test]
fn a_wrong_hash_is_put_aside() {
    let scratch = Scratch::new("bad");
    let all = content(1000);
    let server = Server::new({
        let all = all.clone();
        move |asked, _| file(asked, &all, "v1")
    });
    let url = server.url("/net-0123abcd.pth");
    let error = hub(&scratch)
        .file_from_url(&url, UrlOptions::new())
        .unwrap_err()
        .to_string();
    for part in ["0123abcd", &sha256(&all), "net-0123abcd.pth.bad", &url] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(
        scratch.files(),
        ["torch/hub/checkpoints/net-0123abcd.pth.bad"]
    );
    // It is never taken for the file.
    assert!(
        hub(&scratch)
            .file_from_url(&url, UrlOptions::new())
            .is_err()
    );
    assert_eq!(server.asked().len(), 2);
    let path = hub(&scratch)
        .file_from_url(&url, UrlOptions::new().check_hash(false))
        .unwrap();
    assert_eq!(std::fs::read(path).unwrap(), all);

    // A size that is another is told by the header already.
    let to = scratch.path("b.bin");
    let options = DownloadOptions::new().size(999);
    let error = hub(&scratch)
        .download_url_to_file(&url, &to, options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("1000 bytes, not 999"), "{error}");
    assert!(!to.exists());
}

#[test]
fn a_part_of_another_file_is_thrown_away() {
    let scratch = Scratch::new("other-part");
    let all = content(100_000);
    let server = Server::new({
        let all = all.clone();
        move |asked, _| file(asked, &all, "v1")
    });
    std::fs::write(scratch.path(".a.bin.part"), vec![7; 40_000]).unwrap();
    let to = scratch.path("a.bin");
    hub(&scratch)
        .download_url_to_file(&server.url("/a.bin"), &to, checked(&all))
        .unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), all);
    let from: Vec<_> = server.asked().iter().map(|a| a.from()).collect();
    assert_eq!(from, [Some(40_000), None]);
    assert_eq!(scratch.files(), ["a.bin"]);
}

#[test]
fn lies_about_the_length() {
    let scratch = Scratch::new("length");
    // More than there is on any disk, and more than comes.
    for length in [1 << 60, 5000] {
        let server = Server::new(move |_, _| Reply {
            length: Some(length),
            ..Reply::new(200, content(1000))
        });
        let to = scratch.path("a.bin");
        let error = hub(&scratch)
            .download_url_to_file(&server.url("/a.bin"), &to, DownloadOptions::new())
            .unwrap_err();
        assert_eq!(kind(&error), Some(ErrorKind::UnexpectedEof), "{error}");
        assert!(error.to_string().contains("4 times"), "{error}");
        assert_eq!(server.asked().len(), 4);
        assert!(!to.exists());
    }
    // Less than comes: what is beyond is not read.
    let scratch = Scratch::new("shorter");
    let server = Server::new(|_, _| Reply {
        length: Some(10),
        ..Reply::new(200, content(1000))
    });
    let to = scratch.path("a.bin");
    let wanted = checked(&content(1000));
    let error = hub(&scratch)
        .download_url_to_file(&server.url("/a.bin"), &to, wanted)
        .unwrap_err();
    assert!(error.to_string().contains("SHA-256"), "{error}");
    assert!(!to.exists());
    // No number at all.
    let server = Server::new(|_, _| Reply::new(200, "abc").field("content-length", "-7"));
    let to = scratch.path("b.bin");
    assert!(
        hub(&scratch)
            .download_url_to_file(&server.url("/a.bin"), &to, DownloadOptions::new())
            .is_err()
    );
    assert!(!to.exists());
}

#[test]
fn statuses() {
    let scratch = Scratch::new("statuses");
    for (status, kind_of, said, asked) in [
        (404, ErrorKind::NotFound, "404", 1),
        (410, ErrorKind::NotFound, "410", 1),
        (401, ErrorKind::PermissionDenied, "HF_TOKEN", 1),
        (403, ErrorKind::PermissionDenied, "HF_TOKEN", 1),
        (416, ErrorKind::InvalidData, "416", 1),
        (418, ErrorKind::InvalidData, "418", 1),
        (429, ErrorKind::ResourceBusy, "429", 4),
        (500, ErrorKind::Other, "500", 4),
        (503, ErrorKind::Other, "503", 4),
    ] {
        let server = Server::new(move |_, _| Reply::new(status, "no").field("retry-after", 0));
        let to = scratch.path("a.bin");
        let url = server.url("/dir/a.bin");
        let error = hub(&scratch)
            .download_url_to_file(&url, &to, DownloadOptions::new())
            .unwrap_err();
        assert_eq!(kind(&error), Some(kind_of), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(said) && text.contains(&url) && text.contains("download_url_to_file"),
            "{text}"
        );
        assert_eq!(server.asked().len(), asked, "{status}");
        assert!(scratch.files().is_empty(), "{:?}", scratch.files());
    }
    // They pass.
    let server = Server::new(|asked, n| match n {
        0 => Reply::new(503, ""),
        1 => Reply::new(429, "").field("retry-after", 0),
        _ => file(asked, b"here", "v1"),
    });
    let to = scratch.path("a.bin");
    hub(&scratch)
        .download_url_to_file(&server.url("/a"), &to, DownloadOptions::new())
        .unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), b"here");
}

#[test]
fn redirects_take_no_token_along() {
    let scratch = Scratch::new("redirects");
    let other = Server::new(|asked, _| file(asked, b"weights", "v1"));
    let far = other.url("/b.bin?signature=secret");
    let server = Server::new({
        let far = far.clone();
        move |asked, _| match asked.path.as_str() {
            "/far" => Reply::new(302, "").field("location", &far),
            "/near" => Reply::new(307, "").field("location", "deeper/near"),
            "/deeper/near" => Reply::new(301, "").field("location", "/a.bin"),
            "/loop" => Reply::new(302, "").field("location", "/loop"),
            "/file" => Reply::new(302, "").field("location", "file:///etc/passwd"),
            "/odd" => Reply::new(302, "").field("location", "ftp://host/x"),
            _ => file(asked, b"weights", "v1"),
        }
    });
    let hub = builder(&scratch)
        .endpoint(server.url(""))
        .token(Token::new("hf_secret"))
        .build()
        .unwrap();
    let get = |url: &str, name: &str| {
        hub.download_url_to_file(url, scratch.path(name), DownloadOptions::new())
    };
    get(&server.url("/near"), "near").unwrap();
    // The endpoint itself gets the token, each time.
    assert_eq!(server.asked().len(), 3);
    assert!(
        server
            .asked()
            .iter()
            .all(|a| a.field("authorization") == Some("Bearer hf_secret"))
    );
    // Another port, and another name of the same host.
    get(&server.url("/far"), "far").unwrap();
    assert_eq!(other.asked()[0].field("authorization"), None);
    assert_eq!(other.asked()[0].path, "/b.bin?signature=secret");
    get(&server.other_url("/a.bin"), "other").unwrap();
    assert_eq!(server.asked().last().unwrap().field("authorization"), None);
    assert_eq!(std::fs::read(scratch.path("far")).unwrap(), b"weights");

    for (path, said) in [
        ("/loop", "redirects"),
        ("/file", "not as safe"),
        ("/odd", "no address"),
    ] {
        let error = get(&server.url(path), "bad").unwrap_err().to_string();
        assert!(
            error.contains(said) && !error.contains("hf_secret"),
            "{error}"
        );
        assert!(!scratch.path("bad").exists());
    }
    // Neither password nor signature is repeated.
    drop(other);
    let error = get(&far.replace("http://", "http://me:pass@"), "bad")
        .unwrap_err()
        .to_string();
    assert!(
        !error.contains("secret") && !error.contains("pass"),
        "{error}"
    );
}

#[test]
fn servers_that_hang() {
    let scratch = Scratch::new("hang");
    let all = content(200_000);
    // Nothing comes, and then nothing more comes.
    for (name, at) in [("never", None), ("stops", Some(120_000))] {
        let server = Server::new({
            let all = all.clone();
            move |asked, n| match n {
                0 => Reply {
                    cut: at,
                    ..file(asked, &all, "v1")
                }
                .hang(),
                _ => file(asked, &all, "v1"),
            }
        });
        let hub = builder(&scratch)
            .timeout(Duration::from_millis(300))
            .build()
            .unwrap();
        let to = scratch.path(name);
        hub.download_url_to_file(&server.url("/a.bin"), &to, checked(&all))
            .unwrap();
        assert_eq!(server.asked()[1].from(), at);
    }
    let server = Server::new(|_, _| Reply::new(200, "x").hang());
    let hub = builder(&scratch)
        .timeout(Duration::from_millis(100))
        .retries(1, Duration::ZERO)
        .build()
        .unwrap();
    let error = hub
        .download_url_to_file(
            &server.url("/a.bin"),
            scratch.path("none"),
            DownloadOptions::new(),
        )
        .unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::TimedOut), "{error}");
    assert!(
        error.to_string().contains("HF_HUB_DOWNLOAD_TIMEOUT"),
        "{error}"
    );
}

#[test]
fn a_cancelled_download_can_go_on() {
    let scratch = Scratch::new("cancel");
    let all = content(300_000);
    let cancel = Cancel::new();
    let server = Server::new({
        let (all, cancel) = (all.clone(), cancel.clone());
        move |asked, n| match n {
            0 => {
                // When the first bytes have arrived.
                let cancel = cancel.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(300));
                    cancel.cancel();
                });
                file(asked, &all, "v1").cut(100_000).hang()
            }
            _ => file(asked, &all, "v1"),
        }
    });
    let to = scratch.path("a.bin");
    let options = DownloadOptions::new().cancel(cancel);
    let error = hub(&scratch)
        .download_url_to_file(&server.url("/a.bin"), &to, options)
        .unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::Interrupted), "{error}");
    assert!(!to.exists());
    hub(&scratch)
        .download_url_to_file(&server.url("/a.bin"), &to, DownloadOptions::new())
        .unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), all);
    assert_eq!(server.asked()[1].from(), Some(100_000));
}

#[test]
fn two_threads_want_one_file() {
    let scratch = Scratch::new("threads");
    let all = content(100_000);
    let server = Server::new({
        let all = all.clone();
        move |asked, _| {
            std::thread::sleep(Duration::from_millis(200));
            file(asked, &all, "v1")
        }
    });
    let url = server.url("/net.pth");
    let paths: Vec<_> = std::thread::scope(|scope| {
        let get = || {
            hub(&scratch)
                .file_from_url(&url, UrlOptions::new())
                .unwrap()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(get)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(paths.iter().all(|path| std::fs::read(path).unwrap() == all));
    assert_eq!(server.asked().len(), 1);
    assert_eq!(scratch.files(), ["torch/hub/checkpoints/net.pth"]);
}

/// The other process of the next test.
#[test]
#[ignore = "run by two_processes_want_one_file"]
fn child() {
    let Ok(url) = std::env::var("TORSH_HUB_TEST_URL") else {
        return;
    };
    let to = std::env::var("TORSH_HUB_TEST_TO").unwrap();
    let scratch = Scratch::new("child");
    hub(&scratch)
        .download_url_to_file(&url, to, DownloadOptions::new())
        .unwrap();
}

#[test]
fn two_processes_want_one_file() {
    let scratch = Scratch::new("processes");
    let all = content(100_000);
    let server = Server::new({
        let all = all.clone();
        move |asked, _| {
            std::thread::sleep(Duration::from_millis(500));
            file(asked, &all, "v1")
        }
    });
    let (url, to) = (server.url("/a.bin"), scratch.path("a.bin"));
    let children: Vec<_> = (0..3)
        .map(|_| {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "downloads::child", "--ignored", "--quiet"])
                .env("TORSH_HUB_TEST_URL", &url)
                .env("TORSH_HUB_TEST_TO", &to)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(std::fs::read(&to).unwrap(), all);
    assert_eq!(scratch.files(), ["a.bin"]);
    // Those that began before the first ended waited for it.
    assert!(server.asked().iter().all(|a| a.from().is_none()));
}

#[test]
#[cfg(unix)]
fn a_disk_that_is_full() {
    let scratch = Scratch::new("full");
    let all = content(400_000);
    let server = Server::new({
        let all = all.clone();
        move |asked, _| file(asked, &all, "v1")
    });
    let (url, to) = (server.url("/a.bin"), scratch.path("a.bin"));
    // A limit to the size of files, which writing reports as an error when its signal is ignored.
    let script =
        "trap '' XFSZ; ulimit -f 200; exec \"$0\" --exact downloads::child --ignored --nocapture";
    let out = std::process::Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg(std::env::current_exe().unwrap())
        .env("TORSH_HUB_TEST_URL", &url)
        .env("TORSH_HUB_TEST_TO", &to)
        .output()
        .unwrap();
    assert!(!out.status.success());
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        error.contains("a.bin.part") && error.contains("goes on where this one ended"),
        "{error}"
    );
    assert!(!to.exists());
    let part = scratch.path(".a.bin.part").metadata().unwrap().len();
    assert!(part > 0 && part < 400_000, "{part}");
    hub(&scratch)
        .download_url_to_file(&url, &to, checked(&all))
        .unwrap();
    assert_eq!(server.asked()[1].from(), Some(part as usize));
    assert_eq!(std::fs::read(&to).unwrap(), all);
}

#[test]
fn files_that_cannot_be_written() {
    let scratch = Scratch::new("unwritable");
    let server = Server::new(|asked, _| file(asked, b"abc", "v1"));
    std::fs::write(scratch.path("file"), "").unwrap();
    let url = server.url("/a.pth");
    let below = scratch.path("file/below/a.pth");
    let error = hub(&scratch)
        .download_url_to_file(&url, &below, DownloadOptions::new())
        .unwrap_err();
    assert!(error.to_string().contains("file/below"), "{error}");
    let hub_of_file = builder(&scratch)
        .torch_home(scratch.path("file"))
        .build()
        .unwrap();
    let error = hub_of_file
        .file_from_url(&url, UrlOptions::new())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("TORCH_HOME") && error.contains("checkpoints"),
        "{error}"
    );
    let error = hub(&scratch)
        .download_url_to_file(&url, &scratch.0, DownloadOptions::new())
        .unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::IsADirectory), "{error}");
    assert!(server.asked().is_empty());

    // A folder without permission to write; the superuser has it nevertheless.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let dir = scratch.path("read-only");
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o555)).unwrap();
        if std::fs::write(dir.join("probe"), "").is_err() {
            let error = hub(&scratch)
                .download_url_to_file(&url, dir.join("a"), DownloadOptions::new())
                .unwrap_err();
            assert_eq!(kind(&error), Some(ErrorKind::PermissionDenied), "{error}");
        }
    }
}

#[test]
fn nobody_answers() {
    let scratch = Scratch::new("nobody");
    let port = {
        let server = Server::new(|_, _| Reply::new(200, ""));
        server.port
    };
    // The port is free again when the server's thread has ended.
    std::thread::sleep(Duration::from_millis(200));
    let url = format!("http://127.0.0.1:{port}/a.bin");
    let error = hub(&scratch)
        .download_url_to_file(&url, scratch.path("a"), DownloadOptions::new())
        .unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::ConnectionRefused), "{error}");
    assert!(error.to_string().contains("HTTPS_PROXY"), "{error}");
    let error = hub(&scratch)
        .download_url_to_file(
            "http://weights.invalid/a",
            scratch.path("a"),
            DownloadOptions::new(),
        )
        .unwrap_err();
    assert_eq!(kind(&error), Some(ErrorKind::HostUnreachable), "{error}");
    for bad in ["a.bin", "ftp://h/a", "http://"] {
        let error = hub(&scratch)
            .download_url_to_file(bad, scratch.path("a"), DownloadOptions::new())
            .unwrap_err();
        assert!(error.to_string().contains("https://host/path"), "{error}");
    }
    let error = hub(&scratch)
        .file_from_url("http://h/dir/", UrlOptions::new())
        .unwrap_err();
    assert!(error.to_string().contains("file_name"), "{error}");
    let error = hub(&scratch)
        .file_from_url("http://h/a", UrlOptions::new().file_name("../a"))
        .unwrap_err();
    assert!(error.to_string().contains("no name of a file"), "{error}");
    assert!(scratch.files().is_empty());
}

#[test]
fn a_proxy_gets_the_request() {
    let scratch = Scratch::new("proxy");
    // It refuses, which is enough to see that it was asked.
    let proxy = Server::new(|_, _| Reply::new(403, ""));
    let environment = torsh_hub::Environment::from_lookup(|name| match name {
        "http_proxy" => Some(format!("http://me:hidden@127.0.0.1:{}", proxy.port)),
        "HF_HUB_DISABLE_PROGRESS_BARS" => Some("1".into()),
        _ => None,
    });
    let hub = torsh_hub::Hub::builder()
        .environment(environment)
        .retries(0, Duration::ZERO)
        .build()
        .unwrap();
    let error = hub
        .download_url_to_file(
            "http://weights.invalid/a.bin",
            scratch.path("a"),
            DownloadOptions::new(),
        )
        .unwrap_err()
        .to_string();
    assert!(!error.contains("hidden"), "{error}");
    let asked = proxy.asked();
    assert!(asked[0].path.contains("weights.invalid"), "{asked:?}");
}
