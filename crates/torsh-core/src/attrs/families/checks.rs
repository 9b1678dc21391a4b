//! Attributes of the check of values.

use crate::TorshError;

crate::words! {
    in "torsh_core::attrs";

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
    ///
    /// ```
    /// use torsh_core::attrs::{self, Assert, Wrong};
    /// let check = Assert { wrong: Wrong::Value, message: "p is negative".into(), hint: None };
    /// assert_eq!(attrs::display(&check).to_string(), "wrong='value', message='p is negative', hint=None");
    /// ```
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
    /// Returns a check of values that the op does not accept.
    ///
    /// ```
    /// use torsh_core::TorshError;
    /// use torsh_core::attrs::Assert;
    /// assert!(matches!(Assert::value("p is negative").error(), TorshError::InvalidArgument(_)));
    /// ```
    pub fn value(message: impl Into<String>) -> Assert {
        Assert {
            wrong: Wrong::Value,
            message: message.into(),
            hint: None,
        }
    }

    /// Returns a check of indices.
    ///
    /// ```
    /// use torsh_core::TorshError;
    /// use torsh_core::attrs::Assert;
    /// assert!(matches!(Assert::index("7 is out of range").error(), TorshError::Index(_)));
    /// ```
    pub fn index(message: impl Into<String>) -> Assert {
        Assert {
            wrong: Wrong::Index,
            ..Assert::value(message)
        }
    }

    /// Says what to do about it.
    ///
    /// ```
    /// use torsh_core::attrs::Assert;
    /// let check = Assert::index("7 is out of range").with_hint("use indices below 3");
    /// assert_eq!(check.hint.as_deref(), Some("use indices below 3"));
    /// ```
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Assert {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the error of values that fail the check; the op is filled in by its caller.
    ///
    /// ```
    /// use torsh_core::attrs::Assert;
    /// let error = Assert::value("p is negative").error();
    /// assert!(error.to_string().starts_with("p is negative\n  at "));
    /// ```
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
