//! How a tensor stores its elements.

use std::fmt;

/// How a tensor stores its elements: all of them, or those of a pattern (`torch.layout`).
///
/// ```
/// use torsh_core::TensorLayout;
/// assert_eq!(TensorLayout::from_name("torch.sparse_csr"), Some(TensorLayout::SparseCsr));
/// assert_eq!(TensorLayout::Strided.to_string(), "torch.strided");
/// assert!(TensorLayout::SparseBsc.is_compressed() && !TensorLayout::SparseBsc.by_rows());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum TensorLayout {
    /// All elements, at the positions that sizes and strides give.
    #[default]
    Strided,
    /// Stored elements with all their indices (coordinates).
    SparseCoo,
    /// Stored elements row by row, with their columns.
    SparseCsr,
    /// Stored elements column by column, with their rows.
    SparseCsc,
    /// Stored blocks row by row of blocks, with their columns of blocks.
    SparseBsr,
    /// Stored blocks column by column of blocks, with their rows of blocks.
    SparseBsc,
}

impl TensorLayout {
    /// All layouts.
    ///
    /// ```
    /// use torsh_core::TensorLayout;
    /// assert!(TensorLayout::ALL.iter().all(|l| TensorLayout::from_name(l.name()) == Some(*l)));
    /// ```
    pub const ALL: [TensorLayout; 6] = [
        TensorLayout::Strided,
        TensorLayout::SparseCoo,
        TensorLayout::SparseCsr,
        TensorLayout::SparseCsc,
        TensorLayout::SparseBsr,
        TensorLayout::SparseBsc,
    ];

    /// PyTorch's name, as `sparse_coo`.
    ///
    /// ```
    /// assert_eq!(torsh_core::TensorLayout::SparseCoo.name(), "sparse_coo");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            TensorLayout::Strided => "strided",
            TensorLayout::SparseCoo => "sparse_coo",
            TensorLayout::SparseCsr => "sparse_csr",
            TensorLayout::SparseCsc => "sparse_csc",
            TensorLayout::SparseBsr => "sparse_bsr",
            TensorLayout::SparseBsc => "sparse_bsc",
        }
    }

    /// The name of PyTorch's enumerator, which its errors show: `SparseCsr`, and `Sparse` for COO.
    ///
    /// ```
    /// use torsh_core::TensorLayout;
    /// assert_eq!(TensorLayout::SparseCsr.enum_name(), "SparseCsr");
    /// assert_eq!(TensorLayout::SparseCoo.enum_name(), "Sparse");
    /// ```
    pub const fn enum_name(self) -> &'static str {
        match self {
            TensorLayout::Strided => "Strided",
            TensorLayout::SparseCoo => "Sparse",
            TensorLayout::SparseCsr => "SparseCsr",
            TensorLayout::SparseCsc => "SparseCsc",
            TensorLayout::SparseBsr => "SparseBsr",
            TensorLayout::SparseBsc => "SparseBsc",
        }
    }

    /// The layout of a name, with or without `torch.` before it.
    ///
    /// ```
    /// use torsh_core::TensorLayout;
    /// assert_eq!(TensorLayout::from_name("sparse_bsr"), Some(TensorLayout::SparseBsr));
    /// assert_eq!(TensorLayout::from_name("jagged"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<TensorLayout> {
        let name = name.strip_prefix("torch.").unwrap_or(name);
        TensorLayout::ALL.into_iter().find(|l| l.name() == name)
    }

    /// Whether all elements are stored.
    ///
    /// ```
    /// use torsh_core::TensorLayout;
    /// assert!(TensorLayout::Strided.is_strided() && !TensorLayout::SparseCoo.is_strided());
    /// ```
    pub const fn is_strided(self) -> bool {
        matches!(self, TensorLayout::Strided)
    }

    /// Whether the indices of one dimension are compressed: CSR, CSC, BSR and BSC.
    ///
    /// ```
    /// use torsh_core::TensorLayout;
    /// assert!(TensorLayout::SparseCsc.is_compressed() && !TensorLayout::SparseCoo.is_compressed());
    /// ```
    pub const fn is_compressed(self) -> bool {
        !matches!(self, TensorLayout::Strided | TensorLayout::SparseCoo)
    }

    /// Whether blocks are stored: BSR and BSC.
    ///
    /// ```
    /// use torsh_core::TensorLayout;
    /// assert!(TensorLayout::SparseBsr.is_blocked() && !TensorLayout::SparseCsr.is_blocked());
    /// ```
    pub const fn is_blocked(self) -> bool {
        matches!(self, TensorLayout::SparseBsr | TensorLayout::SparseBsc)
    }

    /// Whether the compressed dimension is that of the rows: CSR and BSR.
    ///
    /// ```
    /// use torsh_core::TensorLayout;
    /// assert!(TensorLayout::SparseCsr.by_rows() && !TensorLayout::SparseCsc.by_rows());
    /// ```
    pub const fn by_rows(self) -> bool {
        matches!(self, TensorLayout::SparseCsr | TensorLayout::SparseBsr)
    }
}

impl fmt::Display for TensorLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "torch.{}", self.name())
    }
}
