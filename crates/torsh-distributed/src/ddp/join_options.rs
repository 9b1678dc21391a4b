//! The arguments of `join`.

/// PyTorch's keyword arguments of `Join`.
///
/// ```
/// use torsh_distributed::JoinOptions;
/// let o = JoinOptions::new().divide_by_initial_world_size(false);
/// assert!(!o.divide_by_initial_world_size && !o.throw_on_early_termination);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinOptions {
    /// Whether gradients are divided by the number of all ranks; if not, by that of the ranks which still train. True
    /// unless set.
    pub divide_by_initial_world_size: bool,
    /// Whether all ranks end with an error as soon as one has no more inputs. The default is `false`.
    pub throw_on_early_termination: bool,
}

impl Default for JoinOptions {
    fn default() -> Self {
        JoinOptions {
            divide_by_initial_world_size: true,
            throw_on_early_termination: false,
        }
    }
}

impl JoinOptions {
    /// The defaults.
    pub fn new() -> JoinOptions {
        JoinOptions::default()
    }

    /// Sets whether gradients are divided by the number of all ranks.
    #[must_use]
    pub fn divide_by_initial_world_size(mut self, initial: bool) -> Self {
        self.divide_by_initial_world_size = initial;
        self
    }

    /// Sets whether all ranks end with an error as soon as one has no more inputs.
    #[must_use]
    pub fn throw_on_early_termination(mut self, throw: bool) -> Self {
        self.throw_on_early_termination = throw;
        self
    }
}
