//! The part of the data that one of several processes reads.

use torsh_tensor::{Result, TorshError};

/// The part of a loader's data that one of several processes (ranks) reads; see
/// [`DataLoader::set_share`](crate::DataLoader::set_share) and
/// [`IterableLoader::set_share`](crate::IterableLoader::set_share).
///
/// ```
/// use torsh_data::{DataLoader, Share};
///
/// let loader = DataLoader::builder((0..5i64).collect::<Vec<_>>()).batch_size(2).build()?;
/// loader.set_share(Share::new(1, 2)?)?;
/// let mine: Vec<Vec<i64>> = loader.iter().map(|b| b.to_vec()).collect::<Result<_, _>>()?;
/// assert_eq!(mine, [vec![1, 3], vec![0]]); // item 0 comes twice, so that both ranks have 3
/// loader.set_share(Share::new(1, 2)?.even(false))?;
/// let mine: Vec<Vec<i64>> = loader.iter().map(|b| b.to_vec()).collect::<Result<_, _>>()?;
/// assert_eq!(mine, [vec![1, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) even: bool,
}

impl Share {
    /// The part of `rank` of `ranks` processes; all parts have as many items, for which some come
    /// twice (or are left out, by a loader with `drop_last`). An error where there is no such rank.
    ///
    /// ```
    /// use torsh_data::Share;
    ///
    /// let error = Share::new(2, 2).unwrap_err().to_string();
    /// assert!(error.contains("there is no rank 2 of 2: rank must be less than ranks"));
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(rank: usize, ranks: usize) -> Result<Share> {
        if rank >= ranks {
            return Err(TorshError::invalid(
                "Share",
                format!("there is no rank {rank} of {ranks}: rank must be less than ranks"),
            ));
        }
        Ok(Share {
            rank,
            ranks,
            even: true,
        })
    }

    /// Whether all parts have as many items (true). Otherwise each item is in one part, as a
    /// validation needs it.
    #[must_use]
    pub fn even(mut self, even: bool) -> Self {
        self.even = even;
        self
    }

    /// The process whose part it is.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many processes there are.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// How many of `len` things are in the part; with `drop` those that cannot be dealt out evenly are
    /// left out.
    pub(crate) fn len_of(&self, len: usize, drop: bool) -> usize {
        match (self.even, drop) {
            (true, true) => len / self.ranks,
            (true, false) => len.div_ceil(self.ranks),
            (false, _) => len.saturating_sub(self.rank).div_ceil(self.ranks),
        }
    }

    /// The part of things: every so-manieth.
    pub(crate) fn of<T: Clone>(&self, all: &[T], drop: bool) -> Vec<T> {
        let places = (0..self.len_of(all.len(), drop)).map(|i| i * self.ranks + self.rank);
        // Where the parts need more than there is, the order begins anew.
        places.map(|i| all[i % all.len()].clone()).collect()
    }
}
