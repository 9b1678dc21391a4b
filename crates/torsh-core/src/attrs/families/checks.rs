//! Attributes of the check of values.

use crate::TorshError;

crate::words! {
    /// What is wrong with values that fail a check.
    Wrong {
        /// They are not what the op accepts.
        Value = "value",
        /// They are indices that are out of range.
        Index = "index",
    }
}

crate::attributes! {
    /// `Assert`: an error unless the operand, a bool, is true. A device that is not waited for
    /// reports it later, with the op and its caller.
    Assert {
        /// The kind of the error.
        wrong: Wrong,
        /// Its text.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    }
}

impl Assert {
    /// A check of values that the op does not accept.
    pub fn value(message: impl Into<String>) -> Assert {
        Assert {
            wrong: Wrong::Value,
            message: message.into(),
            hint: None,
        }
    }

    /// A check of indices.
    pub fn index(message: impl Into<String>) -> Assert {
        Assert {
            wrong: Wrong::Index,
            ..Assert::value(message)
        }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Assert {
        self.hint = Some(hint.into());
        self
    }

    /// The error of values that fail the check; the op is filled in by its caller.
    #[track_caller]
    pub fn error(&self) -> TorshError {
        let e = match self.wrong {
            Wrong::Value => TorshError::invalid("", self.message.as_str()),
            Wrong::Index => TorshError::index("", self.message.as_str()),
        };
        match &self.hint {
            Some(h) => e.with_hint(h.as_str()),
            None => e,
        }
    }
}
