//! `torsh hub`

use std::process::ExitCode;

use serde_json::json;
use torsh_hub::{CachedFile, Checksum, DownloadOptions, Hub, Repo, State, Store, UrlOptions};
use torsh_tensor::{Result, TorshError};

use crate::FetchArgs;
use crate::output::{bytes, print, table};

/// `torsh hub fetch`
pub(crate) fn fetch(args: &FetchArgs, json: bool) -> Result<ExitCode> {
    let hub = Hub::builder().progress(!args.quiet && !json).build()?;
    let checksum = args.sha256.as_deref().map(Checksum::sha256).transpose()?;
    let mut paths = Vec::new();
    if args.source.contains("://") {
        if !args.files.is_empty() || !args.include.is_empty() {
            return Err(TorshError::invalid(
                "fetch",
                "an address is one file; files and patterns are of repositories",
            ));
        }
        match &args.to {
            Some(to) => {
                hub.download_url_to_file(
                    &args.source,
                    to,
                    DownloadOptions::new().checksum(checksum),
                )?;
                paths.push(to.clone());
            }
            None => {
                let options = UrlOptions::new().checksum(checksum);
                paths.push(hub.file_from_url(&args.source, options)?);
            }
        }
    } else {
        if args.to.is_some() {
            return Err(TorshError::invalid(
                "fetch",
                "--to is for addresses; files of repositories are in the cache",
            )
            .with_hint("`torsh hub fetch` prints where they are"));
        }
        if checksum.is_some() && args.files.len() != 1 {
            return Err(TorshError::invalid(
                "fetch",
                "--sha256 is of one file; name it after the repository",
            ));
        }
        let repo = Repo::parse(&args.source)?;
        if args.files.is_empty() {
            let patterns: Vec<&str> = args.include.iter().map(String::as_str).collect();
            paths.push(hub.snapshot(&repo, &patterns)?);
        }
        let options = DownloadOptions::new().checksum(checksum);
        for file in &args.files {
            paths.push(hub.file_with(&repo, file, &options)?);
        }
    }
    let shown: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    print(&(shown.join("\n") + "\n"), &json!({ "paths": shown }), json)
}

fn place(file: &CachedFile) -> String {
    match (&file.repo, file.revision.as_deref()) {
        (Some(repo), Some(revision)) => {
            let names = match file.refs.is_empty() {
                true => revision.chars().take(8).collect(),
                false => file.refs.join(","),
            };
            format!("{repo}@{names}")
        }
        (Some(repo), None) => repo.clone(),
        _ => "(torch)".into(),
    }
}

fn state(file: &CachedFile) -> &'static str {
    match file.state {
        State::Whole => "",
        State::Part => "part",
        State::Bad => "bad",
        _ => "other",
    }
}

fn object(file: &CachedFile) -> serde_json::Value {
    json!({
        "cache": match file.store { Store::Torch => "torch", _ => "huggingface" },
        "repo": file.repo,
        "revision": file.revision,
        "refs": file.refs,
        "name": file.name,
        "path": file.path.display().to_string(),
        "size": file.size,
        "state": match file.state { State::Whole => "whole", State::Part => "part", State::Bad => "bad", _ => "other" },
        "checksum": file.checksum.as_ref().map(ToString::to_string),
    })
}

/// `torsh hub list`
pub(crate) fn list(json: bool) -> Result<ExitCode> {
    let files = Hub::shared()?.cached()?;
    let mut text = String::new();
    if files.is_empty() {
        text.push_str("nothing is in the caches\n");
    } else {
        let rows: Vec<Vec<String>> = files
            .iter()
            .map(|f| {
                vec![
                    place(f),
                    bytes(f.size),
                    f.name.clone(),
                    state(f).to_string(),
                ]
            })
            .collect();
        text.push_str(&table(&rows, &[1]));
        // A blob may be of several commits.
        let mut paths: Vec<_> = files
            .iter()
            .map(|f| {
                (
                    f.path.canonicalize().unwrap_or_else(|_| f.path.clone()),
                    f.size,
                )
            })
            .collect();
        paths.sort();
        paths.dedup();
        let all = paths.iter().map(|(_, size)| size).sum();
        text.push_str(&format!("{} files, {}\n", files.len(), bytes(all)));
    }
    let object = json!({ "files": files.iter().map(object).collect::<Vec<_>>() });
    print(&text, &object, json)
}

/// `torsh hub rm`
pub(crate) fn rm(names: &[String], json: bool) -> Result<ExitCode> {
    let hub = Hub::shared()?;
    let mut text = String::new();
    let mut removed = Vec::new();
    for name in names {
        let freed = hub.remove_cached(name)?;
        text.push_str(&format!("removed {name}: {}\n", bytes(freed)));
        removed.push(json!({ "name": name, "bytes": freed }));
    }
    print(&text, &json!({ "removed": removed }), json)
}

/// `torsh hub verify`
pub(crate) fn verify(names: &[String], json: bool) -> Result<ExitCode> {
    let files = Hub::shared()?.cached()?;
    let of =
        |file: &CachedFile, name: &String| file.name == *name || file.repo.as_ref() == Some(name);
    if let Some(name) = names.iter().find(|name| !files.iter().any(|f| of(f, name))) {
        return Err(
            TorshError::invalid("verify", format!("`{name}` is in none of the caches"))
                .with_hint("`torsh hub list` names what is there"),
        );
    }
    let (mut text, mut found, mut wrong) = (String::new(), Vec::new(), 0);
    for file in files
        .iter()
        .filter(|f| names.is_empty() || names.iter().any(|n| of(f, n)))
    {
        let (result, why) = match (file.state, file.verify()) {
            (State::Part, _) => ("part", None),
            (State::Bad, _) => ("bad", None),
            (_, Ok(true)) => ("right", None),
            (_, Ok(false)) => ("no checksum", None),
            (_, Err(e)) => {
                wrong += 1;
                (
                    "wrong",
                    Some(
                        e.info()
                            .map_or_else(|| e.to_string(), |i| i.message.clone()),
                    ),
                )
            }
        };
        text.push_str(&format!("{result}: {} {}\n", place(file), file.name));
        if let Some(why) = &why {
            text.push_str(&format!("  {why}\n"));
        }
        let mut object = object(file);
        object["result"] = result.into();
        object["why"] = why.into();
        found.push(object);
    }
    if wrong > 0 {
        text.push_str(&format!(
            "{wrong} files are damaged; `torsh hub rm` removes them\n"
        ));
    }
    let printed = print(&text, &json!({ "files": found, "wrong": wrong }), json)?;
    Ok(if wrong == 0 {
        printed
    } else {
        ExitCode::FAILURE
    })
}
