//! How the packed product is cut for caches and threads: a pure function of sizes and machine.

use torsh_core::machine::Machine;

use super::super::choose::MatrixSteps;
use crate::machine::tuning::matmul as tuning;
use crate::machine::tuning::product_blocks::BlockSizes;

/// What a plan depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackedSizes {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: MatrixSteps,
    /// Bytes of an element.
    pub element: usize,
    /// The numbers that an element is made of: [`Packable::NUMBERS`](super::Packable::NUMBERS).
    pub numbers: usize,
    /// Whether the right operand is a matrix, not a function that writes panels.
    pub is_matrix: bool,
    /// Rows of the largest register tile, and columns of the narrowest and the widest.
    pub tile_rows: usize,
    pub tile_step: usize,
    pub tile_columns: usize,
    pub block: BlockSizes,
}

/// What threads have of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Partition {
    /// Rows of the result: each thread packs the whole right operand, which is small. Reading what
    /// another core has just written would cost more, and so would writing rows that another core
    /// writes too.
    Rows,
    /// Columns of the result, whose panels each thread packs and reads alone.
    Columns,
    /// All threads pack a block of the right operand, then each multiplies rows by it.
    Shared,
}

/// Which operand's block stays in a core's L2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stationary {
    /// Packed rows of the left operand, while panels of the right one pass by.
    Left,
    /// A block of the right operand, while rows of the left one pass by, a register tile's at a time,
    /// from where they are.
    Right,
}

/// How a product is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedPlan {
    pub partition: Partition,
    pub stationary: Stationary,
    /// Parts of the result with panels of their own, and threads of each.
    pub parts: usize,
    pub inside: usize,
    /// Rows or columns at whose multiples parts begin, and how many such units there are.
    pub unit: usize,
    pub units: usize,
    /// Columns that are packed at a time.
    pub columns: usize,
}

impl PackedPlan {
    pub fn new(s: &PackedSizes, machine: &Machine, threads: usize) -> PackedPlan {
        let partition = s.partition(threads);
        let stationary = s.stationary(threads, partition);
        let panels = s.n.div_ceil(s.tile_columns);
        let parts = match partition {
            Partition::Rows => threads,
            Partition::Columns => threads.min(panels),
            Partition::Shared => 1,
        };
        let (unit, units) = match partition {
            Partition::Rows => (s.tile_rows, s.m.div_ceil(s.tile_rows)),
            // Panels that are written by a function begin at multiples of their width, unless their
            // elements are made of several numbers.
            _ if s.is_matrix || s.parts_between_panels(threads) => {
                (s.tile_step, s.n.div_ceil(s.tile_step))
            }
            _ => (s.tile_columns, panels),
        };
        let most = match partition {
            Partition::Rows => s.n,
            _ => units.div_ceil(parts) * unit,
        };
        PackedPlan {
            partition,
            stationary,
            parts,
            inside: threads / parts,
            unit,
            units,
            columns: s.columns(machine, stationary, most),
        }
    }
}

impl PackedSizes {
    /// Whether there are enough columns for each thread to have some of its own.
    fn many_columns(&self, threads: usize) -> bool {
        self.n >= threads * 2 * self.tile_columns
    }

    /// Whether each thread packs a part of the columns although a function writes them: elements of
    /// several numbers can be prefetched where each thread packs its own.
    fn parts_between_panels(&self, threads: usize) -> bool {
        self.numbers > 1 && self.n >= self.m.max(16 * threads * self.tile_step)
    }

    fn partition(&self, threads: usize) -> Partition {
        let wide = self.n >= self.m && self.many_columns(threads);
        let small_right = self.is_matrix && self.n * self.k * self.element <= tuning::OWN_RIGHT;
        if threads > 1 && !wide && small_right && self.m >= 4 * threads * self.tile_rows {
            return Partition::Rows;
        }
        let few_rows = self.n >= 4 * self.m || self.m < 2 * threads * self.tile_rows;
        let streams = self.streams_left() && (threads == 1 || self.many_columns(threads));
        match wide || few_rows || streams || self.parts_between_panels(threads) {
            true => Partition::Columns,
            false => Partition::Shared,
        }
    }

    /// Whether rows of the left operand can pass by a block of the right one from where they are.
    fn streams_left(&self) -> bool {
        self.block.right > 0 && self.is_matrix && self.a.col == 1
    }

    fn stationary(&self, threads: usize, partition: Partition) -> Stationary {
        let apart = threads == 1 || partition == Partition::Rows || self.many_columns(threads);
        match self.streams_left() && apart {
            true => Stationary::Right,
            false => Stationary::Left,
        }
    }

    /// Columns that are packed at a time, of `most` that a part has: whole panels.
    fn columns(&self, machine: &Machine, stationary: Stationary, most: usize) -> usize {
        let of_column = self.block.terms * self.element;
        // Panels that all rows are done with at once need not outlast a core's own cache.
        let one_pass = self.m * of_column <= self.block.left;
        let bytes = match stationary {
            Stationary::Right => self.block.right.max(machine.l2 / 2),
            Stationary::Left if one_pass => self.block.left,
            Stationary::Left => tuning::SHARED_BLOCK,
        };
        let columns = (bytes / of_column).next_multiple_of(self.tile_columns);
        let columns = match stationary {
            // Blocks of about one size.
            Stationary::Right => most.div_ceil(most.div_ceil(columns)),
            Stationary::Left => columns.min(most),
        };
        columns.next_multiple_of(self.tile_columns)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::kernels::matmul::tile::Tiled;

    /// A row-major float32 product on a described machine.
    fn plan(machine: &str, [m, n, k]: [usize; 3], threads: usize) -> PackedPlan {
        let machine = Machine::described(machine).unwrap();
        let tiles = <f32 as Tiled>::tiles(machine.level);
        let steps = MatrixSteps {
            row: k as isize,
            col: 1,
        };
        let sizes = PackedSizes {
            m,
            n,
            k,
            a: steps,
            element: 4,
            numbers: 1,
            is_matrix: true,
            tile_rows: tiles.rows,
            tile_step: tiles.step,
            tile_columns: tiles.columns,
            block: tiles.block,
        };
        PackedPlan::new(&sizes, &machine, threads)
    }

    #[torsh_macros::unit_test]
    fn threads_get_what_they_can_keep_apart() {
        if !cfg!(target_arch = "x86_64") {
            return crate::testing::skipped("the expected values are those of x86-64");
        }
        // A square product: columns; the panels of AVX-512 are 48 wide.
        let p = plan("zen4", [1024, 1024, 1024], 2);
        assert_eq!((p.partition, p.parts, p.inside), (Partition::Columns, 2, 1));
        // Few columns and many rows: rows, with the small right operand packed by each.
        let p = plan("zen4", [4096, 64, 64], 2);
        assert_eq!((p.partition, p.parts, p.columns), (Partition::Rows, 2, 96));
        // Few columns of many terms: the right operand is too large to be packed twice.
        let p = plan("zen4", [4096, 64, 4096], 2);
        assert_eq!((p.partition, p.parts, p.inside), (Partition::Shared, 1, 2));
        // One thread has all of it.
        let p = plan("zen3", [64, 64, 64], 1);
        assert_eq!((p.parts, p.inside, p.stationary), (1, 1, Stationary::Left));
    }

    /// Every column belongs to one part, whatever the sizes.
    #[torsh_macros::unit_test]
    fn parts_cover_the_result() {
        for machine in ["zen3", "zen4", "neon"] {
            for threads in [1, 2, 3, 8] {
                for m in [1, 7, 100, 5000] {
                    for n in [1, 15, 48, 100, 5000] {
                        let p = plan(machine, [m, n, 77], threads);
                        let all = if p.partition == Partition::Rows { m } else { n };
                        assert!(p.units * p.unit >= all && (p.units - 1) * p.unit < all);
                        assert!(p.parts * p.inside <= threads && p.inside > 0);
                        assert!(p.columns > 0 && p.parts <= threads);
                    }
                }
            }
        }
    }
}
