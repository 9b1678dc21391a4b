//! The tiers of operators: `core` first, then `full`.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;

/// A group of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// What every network needs.
    Core,
    /// The rest of the database.
    Full,
    /// Named by neither list.
    Unlisted,
}

impl Tier {
    /// Every tier.
    pub const ALL: [Tier; 3] = [Tier::Core, Tier::Full, Tier::Unlisted];
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tier::Core => "core",
            Tier::Full => "full",
            Tier::Unlisted => "unlisted",
        })
    }
}

/// The contents of `TIERS.json`.
#[derive(Debug, Deserialize)]
pub struct Tiers {
    core: HashSet<String>,
    full: HashSet<String>,
    #[serde(default)]
    full_variants: HashSet<String>,
}

impl Tiers {
    /// The tiers of a file's text; the project's own where there is none.
    ///
    /// # Errors
    /// A text that is not of the format.
    pub fn of_file(bytes: Option<&[u8]>) -> Result<Tiers, String> {
        let own = include_bytes!("../golden/TIERS.json");
        serde_json::from_slice(bytes.unwrap_or(own)).map_err(|e| format!("TIERS.json: {e}"))
    }

    /// The tier of an operator's file (`stem` is `NAME` or `NAME.VARIANT`).
    pub fn of(&self, op: &str, stem: &str) -> Tier {
        if self.full.contains(op) || self.full_variants.contains(stem) {
            Tier::Full
        } else if self.core.contains(op) {
            Tier::Core
        } else {
            Tier::Unlisted
        }
    }
}
