//! Token ids as blocks of one length.

use torsh_data::Dataset;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

/// Blocks of token ids, each an int64 tensor `[block_size]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBlocks {
    ids: Vec<i64>,
    block_size: usize,
    stride: usize,
}

/// Cuts the ids of a long text into blocks of `block_size`, which begin `stride` apart: `block_size` for blocks that
/// follow one another, less for blocks that overlap. What is left at the end is no block.
///
/// # Errors
/// A `block_size` or `stride` of 0.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_text::data::pack_blocks;
/// let blocks = pack_blocks(&[1, 2, 3, 4, 5, 6], 4, 2)?;
/// assert_eq!(blocks.len(), 2);
/// assert_eq!(blocks.block(1), Some(&[3, 4, 5, 6][..]));
/// assert_eq!(blocks.to_tensor()?.dims(), [2, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn pack_blocks(ids: &[u32], block_size: usize, stride: usize) -> Result<TokenBlocks> {
    if block_size == 0 || stride == 0 {
        return Err(TorshError::invalid(
            "pack_blocks",
            format!("block_size and stride are at least 1, got {block_size} and {stride}"),
        ));
    }
    Ok(TokenBlocks {
        ids: ids.iter().map(|id| i64::from(*id)).collect(),
        block_size,
        stride,
    })
}

/// The ids of several texts one after the other, with a token such as the end of text after each.
///
/// ```
/// use torsh_text::data::join_documents;
/// assert_eq!(join_documents([vec![1, 2], vec![3]], Some(0)), [1, 2, 0, 3, 0]);
/// ```
pub fn join_documents<D: AsRef<[u32]>>(
    documents: impl IntoIterator<Item = D>,
    separator: Option<u32>,
) -> Vec<u32> {
    let mut all = Vec::new();
    for document in documents {
        all.extend_from_slice(document.as_ref());
        all.extend(separator);
    }
    all
}

impl TokenBlocks {
    /// The ids of a block.
    pub fn block(&self, index: usize) -> Option<&[i64]> {
        let begin = index.checked_mul(self.stride)?;
        self.ids[..].get(begin..begin.checked_add(self.block_size)?)
    }

    /// All blocks as an int64 tensor `[blocks, block_size]`.
    ///
    /// # Errors
    /// No memory.
    #[torsh_tensor::names_caller]
    pub fn to_tensor(&self) -> Result<Tensor> {
        let blocks = (0..self.len()).filter_map(|i| self.block(i));
        let all: Vec<i64> = blocks.flatten().copied().collect();
        tensor(&all, &[self.len(), self.block_size])
    }
}

fn tensor(ids: &[i64], shape: &[usize]) -> Result<Tensor> {
    Tensor::from_slice(ids, shape, DType::I64, Device::Cpu)
}

impl Dataset for TokenBlocks {
    type Item = Tensor;

    fn len(&self) -> usize {
        match self.ids.len().checked_sub(self.block_size) {
            Some(rest) => rest / self.stride + 1,
            None => 0,
        }
    }

    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<Tensor> {
        let block = self.block(index).ok_or_else(|| {
            let why = format!("block {index} is out of range: there are {}", self.len());
            TorshError::index("TokenBlocks", why)
        })?;
        tensor(block, &[self.block_size])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_begin_a_stride_apart() -> Result<()> {
        let ids: Vec<u32> = (0..10).collect();
        for (size, stride, count) in [
            (3, 3, 3),
            (10, 1, 1),
            (11, 1, 0),
            (4, 3, 3),
            (1, 1, 10),
            (2, 5, 2),
        ] {
            let blocks = pack_blocks(&ids, size, stride)?;
            assert_eq!(blocks.len(), count, "{size} {stride}");
            assert!(blocks.get(count).is_err());
            for i in 0..count {
                assert_eq!(blocks.get(i)?.to_vec::<i64>()?[0], (i * stride) as i64);
            }
        }
        assert!(pack_blocks(&ids, 0, 1).is_err() && pack_blocks(&ids, 1, 0).is_err());
        Ok(())
    }
}
