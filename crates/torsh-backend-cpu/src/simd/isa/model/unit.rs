//! AMX's tile unit (SDM volume 1, chapter 18): palette 1, whose eight tiles have up to 16 rows of up to 64 bytes.
//! What the processor refuses with a fault is a panic here.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{flushed, fused, sum, wide};
use crate::multiversion;

/// Rows of a tile, and bytes of a row.
const ROWS: usize = 16;
const BYTES: usize = 64;
/// Tiles.
const TILES: usize = 8;

type TileRegister = [[u8; BYTES]; ROWS];

/// A tile's configuration: its rows, and bytes of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Size {
    rows: usize,
    bytes: usize,
}

/// A thread's unit.
pub(super) struct Unit {
    /// `None` in the initial state, in which tiles cannot be used.
    sizes: Option<[Size; TILES]>,
    tiles: [TileRegister; TILES],
}

thread_local! {
    static UNIT: RefCell<Unit> = const {
        RefCell::new(Unit {
            sizes: None,
            tiles: [[[0; BYTES]; ROWS]; TILES],
        })
    };
}
static PRODUCTS: AtomicUsize = AtomicUsize::new(0);

/// Products of tiles that the model has computed, on all threads.
pub(crate) fn products() -> usize {
    PRODUCTS.load(Ordering::Relaxed)
}

/// Calls `run` with this thread's unit.
pub(super) fn with<T>(run: impl FnOnce(&mut Unit) -> T) -> T {
    UNIT.with_borrow_mut(run)
}

impl Unit {
    fn size(&self, tile: usize) -> Size {
        let Some(sizes) = &self.sizes else {
            panic!("#UD: the tiles are not configured");
        };
        let size = sizes[tile];
        assert!(size.rows > 0, "#UD: tmm{tile} is not configured");
        size
    }

    /// LDTILECFG.
    ///
    /// # Safety
    /// `from` must be valid for 64 bytes.
    pub(super) unsafe fn configure(&mut self, from: *const u8) {
        // SAFETY: the caller's promise.
        let memory: [u8; 64] = unsafe { from.cast::<[u8; 64]>().read_unaligned() };
        let [palette, start_row, ..] = memory;
        self.tiles = [[[0; BYTES]; ROWS]; TILES];
        if palette == 0 {
            self.sizes = None;
            return;
        }
        assert!(palette == 1, "#GP: palette {palette}");
        // Only an interrupted load or store leaves another row to continue with.
        assert!(start_row == 0, "the model starts with row 0");
        assert!(memory[2..16] == [0; 14], "#GP: reserved bytes are not 0");
        let size = |tile: usize| Size {
            rows: usize::from(memory[48 + tile]),
            bytes: usize::from(u16::from_le_bytes([
                memory[16 + 2 * tile],
                memory[17 + 2 * tile],
            ])),
        };
        for tile in 0..16 {
            let Size { rows, bytes } = size(tile);
            let most = if tile < TILES { (ROWS, BYTES) } else { (0, 0) };
            let fits = rows <= most.0 && bytes <= most.1 && (rows == 0) == (bytes == 0);
            assert!(fits, "#GP: tmm{tile} of {rows} rows of {bytes} bytes");
        }
        self.sizes = Some(std::array::from_fn(size));
    }

    /// TILERELEASE.
    pub(super) fn release(&mut self) {
        self.sizes = None;
        self.tiles = [[[0; BYTES]; ROWS]; TILES];
    }

    /// TILEZERO.
    pub(super) fn zero(&mut self, tile: usize) {
        self.size(tile);
        self.tiles[tile] = [[0; BYTES]; ROWS];
    }

    /// TILELOADD and, which is the same with a hint, TILELOADDT1.
    ///
    /// # Safety
    /// The tile's rows, `stride` apart from `from` on, must be valid.
    pub(super) unsafe fn load(&mut self, tile: usize, from: *const u8, stride: usize) {
        let Size { rows, bytes } = self.size(tile);
        self.tiles[tile] = [[0; BYTES]; ROWS];
        for (i, row) in self.tiles[tile][..rows].iter_mut().enumerate() {
            let from = from.wrapping_add(i.wrapping_mul(stride));
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from, row.as_mut_ptr(), bytes) };
        }
    }

    /// TILESTORED.
    ///
    /// # Safety
    /// As [`Unit::load`].
    pub(super) unsafe fn store(&self, tile: usize, to: *mut u8, stride: usize) {
        let Size { rows, bytes } = self.size(tile);
        for (i, row) in self.tiles[tile][..rows].iter().enumerate() {
            let to = to.wrapping_add(i.wrapping_mul(stride));
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), to, bytes) };
        }
    }

    /// TDPBF16PS: to row m of `to` are added, for each of its columns, the products of the pairs of row m of `a` with
    /// those of the column's in the rows of `b`. The first numbers of the pairs are summed by themselves, from 0 and
    /// in their order, as are the second ones; then both sums, and what was in the tile.
    pub(super) fn multiply(&mut self, to: usize, a: usize, b: usize) {
        let [of_to, of_a, of_b] = [to, a, b].map(|tile| self.size(tile));
        assert!(
            to != a && to != b && a != b,
            "#UD: one tile twice: tmm{to}, tmm{a}, tmm{b}"
        );
        let whole = [of_to, of_a, of_b].iter().all(|s| s.bytes % 4 == 0);
        let fits = of_to.rows == of_a.rows
            && of_a.bytes / 4 == of_b.rows
            && of_to.bytes == of_b.bytes
            && whole;
        assert!(fits, "#UD: {of_to:?} is not of {of_a:?} by {of_b:?}");
        let pair = |row: &[u8; BYTES], i: usize| {
            let at = |i: usize| flushed(wide(u16::from_le_bytes([row[i], row[i + 1]])));
            [at(4 * i), at(4 * i + 2)]
        };
        let mut right = [[[0f32; 16]; 2]; ROWS];
        for (row, right) in self.tiles[b].iter().zip(&mut right) {
            for n in 0..16 {
                let [first, second] = pair(row, n);
                (right[0][n], right[1][n]) = (first, second);
            }
        }
        let (terms, columns) = (of_a.bytes / 4, of_to.bytes / 4);
        let left = self.tiles[a];
        for (left, row) in left.iter().zip(&mut self.tiles[to]).take(of_to.rows) {
            let left: [[f32; 2]; 16] = std::array::from_fn(|k| pair(left, k));
            let mut sums = [[0f32; 16]; 2];
            add_products(&left[..terms], &right, &mut sums);
            for n in 0..columns {
                let at = 4 * n..4 * n + 4;
                let before = f32::from_bits(u32::from_le_bytes([
                    row[4 * n],
                    row[4 * n + 1],
                    row[4 * n + 2],
                    row[4 * n + 3],
                ]));
                let all = sum(flushed(before), sum(sums[0][n], sums[1][n]));
                row[at].copy_from_slice(&all.to_bits().to_le_bytes());
            }
            row[4 * columns..].fill(0);
        }
        self.tiles[to][of_to.rows..].fill([0; BYTES]);
        PRODUCTS.fetch_add(1, Ordering::Relaxed);
    }
}

multiversion! {
    /// Adds the products of a row of pairs and those of each column, the first and the second numbers apart.
    fn add_products<A>(left: &[[f32; 2]], right: &[[[f32; 16]; 2]; ROWS], sums: &mut [[f32; 16]; 2]) {
        for (left, right) in left.iter().zip(right) {
            for half in 0..2 {
                for n in 0..16 {
                    sums[half][n] = fused(left[half], right[half][n], sums[half][n]);
                }
            }
        }
    }
}
