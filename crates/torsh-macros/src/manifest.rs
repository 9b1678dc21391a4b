//! Finds a dependency in the Cargo.toml of the crate that is being compiled.
//!
//! A TOML parser would add eight crates to every build for this one lookup. So this module reads the
//! lines as they are commonly written; `#[module(crate = "..")]` covers all other cases.

/// How the crate being compiled names a dependency.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    /// It is that crate.
    Itself,
    /// By this name in paths.
    Name(String),
}

/// Why a dependency was not found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Missing {
    /// The manifest does not name it.
    NotNamed,
    /// There is no manifest: not built by Cargo.
    NoManifest,
}

/// Looks `name` up in the manifest of the crate being compiled.
pub(crate) fn find(name: &str) -> Result<Found, Missing> {
    let dir = std::env::var_os("CARGO_MANIFEST_DIR").ok_or(Missing::NoManifest)?;
    let path = std::path::Path::new(&dir).join("Cargo.toml");
    let text = std::fs::read_to_string(path).map_err(|_| Missing::NoManifest)?;
    if std::env::var("CARGO_PKG_NAME").is_ok_and(|p| p == name) {
        return Ok(Found::Itself);
    }
    find_in(&text, name)
}

fn find_in(manifest: &str, name: &str) -> Result<Found, Missing> {
    let clean = |s: &str| s.trim().trim_matches(['"', '\'']).to_string();
    let package = |line: &str| {
        let (_, rest) = line.split_once("package")?;
        let (_, value) = rest.split_once('=')?;
        value
            .trim_start()
            .strip_prefix('"')?
            .split('"')
            .next()
            .map(str::to_string)
    };
    // Inside of a table of dependencies; inside of one dependency's own table, its key.
    let (mut among, mut own): (bool, Option<String>) = (false, None);
    let mut named = None;
    for line in manifest
        .lines()
        .map(str::trim)
        .filter(|l| !l.starts_with('#'))
    {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.split(']').next().unwrap_or_default().trim();
            among = header.ends_with("dependencies");
            own = header
                .rsplit_once("dependencies.")
                .map(|(_, key)| clean(key));
            if own.as_deref() == Some(name) {
                named = own.clone();
            }
            continue;
        }
        if let Some(key) = &own {
            if line.starts_with("package") && package(line).as_deref() == Some(name) {
                named = Some(key.clone());
            }
            continue;
        }
        let Some((left, right)) = line.split_once('=') else {
            continue;
        };
        if !among {
            continue;
        }
        let key = clean(left.split('.').next().unwrap_or_default());
        match package(right) {
            Some(p) if p == name => named = Some(key),
            None if key == name => named = Some(key),
            _ => {}
        }
    }
    named
        .map(|n| Found::Name(n.replace('-', "_")))
        .ok_or(Missing::NotNamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str, krate: &str) -> Option<String> {
        match find_in(text, krate) {
            Ok(Found::Name(n)) => Some(n),
            _ => None,
        }
    }

    #[test]
    fn reads_the_common_ways_to_name_a_dependency() {
        let torsh = Some("torsh".to_string());
        assert_eq!(name("[dependencies]\ntorsh = \"0.1\"", "torsh"), torsh);
        assert_eq!(
            name("[dependencies]\ntorsh.workspace = true", "torsh"),
            torsh
        );
        assert_eq!(
            name("[dev-dependencies]\ntorsh = { path = \"..\" }", "torsh"),
            torsh
        );
        assert_eq!(
            name("[dependencies.torsh]\nversion = \"1\"", "torsh"),
            torsh
        );
        assert_eq!(
            name("[target.'cfg(unix)'.dependencies]\ntorsh = \"1\"", "torsh"),
            torsh
        );
        assert_eq!(
            name("[dependencies]\ntorsh-nn = \"1\"", "torsh-nn").as_deref(),
            Some("torsh_nn")
        );
    }

    #[test]
    fn follows_renames() {
        assert_eq!(
            name(
                "[dependencies]\ntr = { package = \"torsh\", version = \"1\" }",
                "torsh"
            )
            .as_deref(),
            Some("tr")
        );
        assert_eq!(
            name("[dependencies.tr]\npackage = \"torsh\"", "torsh").as_deref(),
            Some("tr")
        );
        assert_eq!(
            name("[dependencies]\ntorsh = { package = \"other\" }", "torsh"),
            None
        );
    }

    #[test]
    fn ignores_other_tables() {
        assert_eq!(
            name(
                "[features]\ntorsh = []\n[package]\nname = \"torsh\"",
                "torsh"
            ),
            None
        );
        assert_eq!(
            name("# torsh = \"1\"\n[dependencies]\n# torsh = \"1\"", "torsh"),
            None
        );
    }
}
