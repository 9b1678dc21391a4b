//! Attributes of attention and recurrent layers.

use super::super::Ints;

crate::words! {
    in "torsh_core::attrs";

    /// What a step of a recurrent layer computes.
    RnnMode {
        /// The hyperbolic tangent of the sum.
        Tanh = "RNN_TANH",
        /// The sum, or 0 where it is negative.
        Relu = "RNN_RELU",
        /// A long short-term memory.
        Lstm = "LSTM",
        /// A gated recurrent unit.
        Gru = "GRU",
    }
}

impl RnnMode {
    /// Returns how many blocks of a state's size a step's sums have.
    ///
    /// ```
    /// use torsh_core::attrs::RnnMode;
    /// assert_eq!([RnnMode::Tanh, RnnMode::Gru, RnnMode::Lstm].map(RnnMode::gates), [1, 3, 4]);
    /// ```
    pub const fn gates(self) -> usize {
        match self {
            RnnMode::Tanh | RnnMode::Relu => 1,
            RnnMode::Lstm => 4,
            RnnMode::Gru => 3,
        }
    }

    /// Returns how many blocks of a state's size are kept of each row for backward.
    ///
    /// ```
    /// use torsh_core::attrs::RnnMode;
    /// assert_eq!([RnnMode::Relu, RnnMode::Gru, RnnMode::Lstm].map(RnnMode::saved), [0, 4, 5]);
    /// ```
    pub const fn saved(self) -> usize {
        match self {
            RnnMode::Tanh | RnnMode::Relu => 0,
            RnnMode::Lstm => 5,
            RnnMode::Gru => 4,
        }
    }
}

crate::attributes! {
    /// `Attention`: sums of values, weighted by the softmax of the scores of queries and keys.
    ///
    /// Query `i` stands at key `past + i`, and sees the keys from `left` before to `right` after that one.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Attention { past: 0, left: None, right: Some(0), scale: 0.125, enable_gqa: false };
    /// assert_eq!(attrs::display(&call).to_string(), "past=0, left=None, right=0, scale=0.125, enable_gqa=false");
    /// ```
    Attention {
        /// Keys ahead of the first query.
        past: usize,
        /// How many keys before its own a query sees; all where it is `None`.
        left: Option<usize>,
        /// How many keys after its own a query sees; all where it is `None`.
        right: Option<usize>,
        /// The factor of the scores.
        scale: f64,
        /// Whether several heads of the query share one of key and value.
        enable_gqa: bool,
    }

    /// `AttentionBackward`: the gradients of `Attention`.
    AttentionBackward {
        /// As in [`Attention`].
        past: usize,
        /// As in [`Attention`].
        left: Option<usize>,
        /// As in [`Attention`].
        right: Option<usize>,
        /// As in [`Attention`].
        scale: f64,
        /// As in [`Attention`].
        enable_gqa: bool,
        /// Whether the gradient of the query is wanted.
        query_grad: bool,
        /// Whether that of the key is.
        key_grad: bool,
        /// Whether that of the value is.
        value_grad: bool,
    }

    /// `AttentionBlocks`: attention over the blocks of 64 queries by 64 keys that a mask stores.
    ///
    /// The mask has planes of blocks of its own for each of `mask_batch` times `mask_heads`; either is 1 where all share
    /// one.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::AttentionBlocks { mask_batch: 1, mask_heads: 8, scale: 0.125, enable_gqa: false };
    /// assert_eq!(attrs::display(&call).to_string(), "mask_batch=1, mask_heads=8, scale=0.125, enable_gqa=false");
    /// ```
    AttentionBlocks {
        /// Batches of the mask.
        mask_batch: usize,
        /// Heads of the mask.
        mask_heads: usize,
        /// As in [`Attention`].
        scale: f64,
        /// As in [`Attention`].
        enable_gqa: bool,
    }

    /// `AttentionBlocksBackward`: the gradients of `AttentionBlocks`.
    AttentionBlocksBackward {
        /// As in [`AttentionBlocks`].
        mask_batch: usize,
        /// As in [`AttentionBlocks`].
        mask_heads: usize,
        /// As in [`Attention`].
        scale: f64,
        /// As in [`Attention`].
        enable_gqa: bool,
        /// As in [`AttentionBackward`].
        query_grad: bool,
        /// As in [`AttentionBackward`].
        key_grad: bool,
        /// As in [`AttentionBackward`].
        value_grad: bool,
    }

    /// `Rnn`: one layer and direction of a recurrent network, over all steps.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Rnn { mode: attrs::RnnMode::Lstm, reverse: false, batch_sizes: [3, 2, 2].into() };
    /// assert_eq!(attrs::display(&call).to_string(), "mode='LSTM', reverse=false, batch_sizes=[3, 2, 2]");
    /// ```
    Rnn {
        /// What a step computes.
        mode: RnnMode,
        /// Whether the last step comes first.
        reverse: bool,
        /// How many sequences each step has, from the first step on. It never grows.
        batch_sizes: Ints,
    }

    /// `RnnBackward`: the gradients of `Rnn`.
    RnnBackward {
        /// As in [`Rnn`].
        mode: RnnMode,
        /// As in [`Rnn`].
        reverse: bool,
        /// As in [`Rnn`].
        batch_sizes: Ints,
        /// Whether the weight's gradient is wanted, for which the hidden states ahead of each step
        /// are put together.
        weight_grad: bool,
    }
}

impl AttentionBackward {
    /// Returns what the forward call was given.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let backward = attrs::AttentionBackward {
    ///     past: 0, left: Some(127), right: Some(0), scale: 0.125, enable_gqa: true,
    ///     query_grad: true, key_grad: true, value_grad: false,
    /// };
    /// assert_eq!((backward.forward().left, backward.forward().scale), (Some(127), 0.125));
    /// ```
    pub const fn forward(&self) -> Attention {
        Attention {
            past: self.past,
            left: self.left,
            right: self.right,
            scale: self.scale,
            enable_gqa: self.enable_gqa,
        }
    }
}

impl AttentionBlocksBackward {
    /// Returns what the forward call was given.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let backward = attrs::AttentionBlocksBackward {
    ///     mask_batch: 2, mask_heads: 1, scale: 0.125, enable_gqa: true,
    ///     query_grad: true, key_grad: true, value_grad: false,
    /// };
    /// assert_eq!((backward.forward().mask_batch, backward.forward().scale), (2, 0.125));
    /// ```
    pub const fn forward(&self) -> AttentionBlocks {
        AttentionBlocks {
            mask_batch: self.mask_batch,
            mask_heads: self.mask_heads,
            scale: self.scale,
            enable_gqa: self.enable_gqa,
        }
    }
}
