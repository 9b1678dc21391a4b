//! Reading files of settings in any format.

use std::path::Path;

use serde::de::DeserializeOwned;
use torsh_tensor::{Result, TorshError};

/// The form of a file of settings.
///
/// ```
/// use torsh_train::config::{ExperimentConfig, Format};
/// let yaml = ExperimentConfig::from_str("seed: 7", Format::Yaml)?;
/// assert_eq!(ExperimentConfig::from_str("seed = 7", Format::Toml)?, yaml);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// YAML (`.yaml`, `.yml`)
    Yaml,
    /// JSON (`.json`)
    Json,
    /// TOML (`.toml`)
    Toml,
}

impl Format {
    /// Returns the form that a path's extension names; an error for other extensions.
    ///
    /// ```
    /// use torsh_train::config::Format;
    /// assert_eq!(Format::of("runs/first.yml")?, Format::Yaml);
    /// assert!(Format::of("run.ini").unwrap_err().to_string().contains("there is no form of settings .ini"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn of(path: impl AsRef<Path>) -> Result<Format> {
        let path = path.as_ref();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        match extension.to_ascii_lowercase().as_str() {
            "yaml" | "yml" => Ok(Format::Yaml),
            "json" => Ok(Format::Json),
            "toml" => Ok(Format::Toml),
            other => Err(TorshError::invalid(
                "config",
                format!("{}: there is no form of settings .{other}", path.display()),
            )
            .with_hint("settings are .yaml, .yml, .json or .toml files")),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Yaml => "YAML",
            Format::Json => "JSON",
            Format::Toml => "TOML",
        }
    }
}

/// Line and column, from 1.
pub(super) type Place = (usize, usize);

/// What is wrong with which field, and where.
#[cold]
#[track_caller]
pub(super) fn error(name: &str, at: Option<Place>, field: &str, message: &str) -> TorshError {
    let at = at.map_or(String::new(), |(line, column)| format!(":{line}:{column}"));
    let field = match field {
        "" | "." => String::new(),
        field => format!("{field}: "),
    };
    TorshError::format("", format!("{name}{at}: {field}{message}"))
}

/// The place of a byte.
fn place(text: &str, byte: usize) -> Place {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}

/// The end that errors of the formats put behind their message.
fn without_place(message: &str) -> &str {
    message.rsplit_once(" at line ").map_or(message, |(m, _)| m)
}

pub(super) trait Located: std::fmt::Display {
    fn place(&self, text: &str) -> Option<Place>;
    /// The message without the place.
    fn message(&self) -> String;
}

impl Located for serde_json::Error {
    fn place(&self, _text: &str) -> Option<Place> {
        (self.line() > 0).then(|| (self.line(), self.column()))
    }
    fn message(&self) -> String {
        without_place(&self.to_string()).to_string()
    }
}

impl Located for serde_norway::Error {
    fn place(&self, _text: &str) -> Option<Place> {
        self.location().map(|at| (at.line(), at.column()))
    }
    fn message(&self) -> String {
        without_place(&self.to_string()).to_string()
    }
}

impl Located for toml::de::Error {
    fn place(&self, text: &str) -> Option<Place> {
        self.span().map(|span| place(text, span.start))
    }
    fn message(&self) -> String {
        toml::de::Error::message(self).to_string()
    }
}

#[track_caller]
fn described<T, E: Located>(
    name: &str,
    text: &str,
    result: Result<T, serde_path_to_error::Error<E>>,
) -> Result<T> {
    // No closure, which would hide the caller.
    let e = match result {
        Ok(value) => return Ok(value),
        Err(e) => e,
    };
    let field = e.path().to_string();
    let inner = e.into_inner();
    let message = inner.message();
    // YAML's errors name the field too, or the section it is in.
    let section = field.rsplit_once('.').map_or("", |(section, _)| section);
    let message = [&*field, section]
        .iter()
        .find_map(|f| message.strip_prefix(&format!("{f}: ")))
        .unwrap_or(&message);
    Err(error(name, inner.place(text), &field, message))
}

#[track_caller]
pub(super) fn parse<T: DeserializeOwned>(text: &str, format: Format, name: &str) -> Result<T> {
    match format {
        Format::Yaml => {
            let from = serde_norway::Deserializer::from_str(text);
            described(name, text, serde_path_to_error::deserialize(from))
        }
        Format::Json => {
            let mut from = serde_json::Deserializer::from_str(text);
            let value = described(name, text, serde_path_to_error::deserialize(&mut from))?;
            match from.end() {
                Ok(()) => Ok(value),
                Err(e) => Err(error(name, e.place(text), "", &e.message())),
            }
        }
        Format::Toml => match toml::Deserializer::parse(text) {
            Ok(from) => described(name, text, serde_path_to_error::deserialize(from)),
            Err(e) => Err(error(name, e.place(text), "", &Located::message(&e))),
        },
    }
}

#[track_caller]
pub(super) fn open(path: &Path) -> Result<(String, Format)> {
    let format = Format::of(path)?;
    let mut text = std::fs::read_to_string(path).map_err(|e| {
        TorshError::from(std::io::Error::new(
            e.kind(),
            format!("{}: {e}", path.display()),
        ))
    })?;
    let mark = text.len() - torsh_core::without_bom(text.as_bytes()).len();
    text.drain(..mark);
    Ok((text, format))
}

/// Reads settings of a type of one's own from a YAML, JSON or TOML file; errors name file, line,
/// column and field.
///
/// ```
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Search {
///     rates: Vec<f64>,
/// }
///
/// let path = std::env::temp_dir().join(format!("torsh-search-{}.toml", std::process::id()));
/// std::fs::write(&path, "rates = [0.1, 'much']\n")?;
/// let error = torsh_train::config::from_file::<Search>(&path).err().map(|e| e.to_string());
/// assert!(error.is_some_and(|e| e.contains(".toml:1:15: rates[1]: invalid type: string")));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn from_file<T: DeserializeOwned>(path: impl AsRef<Path>) -> Result<T> {
    let path = path.as_ref();
    let (text, format) = open(path)?;
    parse(&text, format, &path.display().to_string())
}

/// [`from_file`] of a text.
///
/// ```
/// use torsh_train::config::{Format, from_str};
///
/// #[derive(serde::Deserialize)]
/// struct Search {
///     rates: Vec<f64>,
/// }
/// let search: Search = from_str("rates = [0.1, 0.01]", Format::Toml)?;
/// assert_eq!(search.rates, [0.1, 0.01]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn from_str<T: DeserializeOwned>(text: &str, format: Format) -> Result<T> {
    parse(text, format, format.name())
}
