//! The choice of a convolution's algorithm, for all three kernels.

use std::fmt;
use std::hash::{Hash, Hasher};

use torsh_core::DType;
use torsh_core::machine::Machine;

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::columns::Geometry;
use super::element::ConvKind;
use super::implicit::forward_geometry;
use super::{depthwise, direct, direct_tiles, winograd};
use crate::kernels::matmul::choose::{ProductAlgorithm, ProductProblem};
use crate::machine::choice::Algorithm;

/// One of a convolution's kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConvProblem {
    pub kind: ConvKind,
    pub dtype: DType,
    pub g: Geometry,
}

impl Hash for ConvProblem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.kind, self.dtype, self.g).hash(state);
    }
}

/// Sizes as `8x7`, the leading ones left out where they are 1.
struct SpatialSizes(pub [usize; 3]);

impl fmt::Display for SpatialSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [d, h, w] = self.0;
        if d != 1 {
            write!(f, "{d}x")?;
        }
        write!(f, "{h}x{w}")
    }
}

impl fmt::Display for ConvProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let g = &self.g;
        let kind = match self.kind {
            ConvKind::Forward => "forward",
            ConvKind::Transposed => "transposed",
            ConvKind::Weight => "weight",
        };
        let (input, output) = (SpatialSizes(g.input), SpatialSizes(g.output));
        write!(
            f,
            "{kind} {} n={} groups={} ",
            self.dtype, g.images, g.groups
        )?;
        write!(
            f,
            "c={} o={} in={input} out={output} ",
            g.in_channels, g.out_channels
        )?;
        let [d, h, w] = g.padding;
        write!(
            f,
            "k={} stride={} ",
            SpatialSizes(g.kernel),
            SpatialSizes(g.stride)
        )?;
        write!(f, "pad={d}x{h}x{w} dilation={}", SpatialSizes(g.dilation))
    }
}

/// The algorithms of convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConvAlgorithm {
    /// Depthwise 3 x 3 kernels, from the image's rows where they are.
    Depthwise,
    /// AMX, on bands of the image whose numbers are split into three bfloat16.
    Amx,
    /// Sums over all taps in registers, on padded bands of the image, one output channel at a time: for
    /// few channels.
    Direct,
    /// Winograd's minimal filtering F(4x4, 3x3).
    Winograd,
    /// Register tiles of channels by pixels, on padded bands of the image.
    DirectTiles,
    /// The packed matrix product, whose panels of windows are written as it asks for them.
    ImplicitGemm,
    /// Matrix products of columns, which are written out a part at a time.
    Im2col,
}

use ConvAlgorithm::*;

impl ConvProblem {
    /// Whether the packed product's panels can be written from windows.
    fn is_windowed(&self) -> bool {
        matches!(self.dtype, DType::F32 | DType::F64) && self.g.window() > 0
    }

    /// Whether there is anything to sum: a kernel of the transpose without output channels is its bias.
    fn has_terms(&self) -> bool {
        match self.kind {
            ConvKind::Transposed => self.g.out_pixels() * self.g.out_channels > 0,
            _ => true,
        }
    }

    /// The geometry that Winograd's way computes: for the gradient of the input, of the convolution that
    /// gives it.
    fn winograd(&self) -> Option<Geometry> {
        let g = match self.kind {
            ConvKind::Transposed => forward_geometry(&self.g)?,
            _ => self.g,
        };
        (self.dtype == DType::F32 && winograd::accepts(&g)).then_some(g)
    }

    /// Whether the product of the image itself is one for a matrix unit.
    fn is_product_for_amx(&self, machine: &Machine) -> bool {
        let g = &self.g;
        self.dtype == DType::F32 && g.is_pointwise() && {
            let p =
                ProductProblem::row_major(self.dtype, g.out_channels, g.out_pixels(), g.window());
            ProductAlgorithm::choose(&p, machine, 1).0 == ProductAlgorithm::AmxSplit
        }
    }

    /// [`ConvAlgorithm::choose`] among the algorithms that compute what is not finite too.
    pub fn for_any_value(
        &self,
        machine: &Machine,
        threads: usize,
    ) -> (ConvAlgorithm, &'static str) {
        if direct::pays(self) && direct::accepts(self, machine) {
            return (
                Direct,
                "few channels: tiles of a product would be mostly empty",
            );
        }
        if !self.is_windowed() {
            return (Im2col, "the dtype has no other algorithm");
        }
        if self.is_product_for_amx(machine) {
            return (Im2col, "pointwise: AMX multiplies the image itself");
        }
        if self.kind == ConvKind::Weight {
            return (ImplicitGemm, "the gradient of a weight of many channels");
        }
        if direct_tiles::pays(self, machine, threads) {
            return (DirectTiles, "padded bands of the image fit the cache");
        }
        match ImplicitGemm.accepts(self, machine) {
            true => (
                ImplicitGemm,
                "pointwise, or bands would be too large or waste vectors",
            ),
            false => (Im2col, "no other algorithm takes the padding"),
        }
    }
}

impl ConvAlgorithm {
    #[cfg(target_arch = "x86_64")]
    fn amx_accepts(p: &ConvProblem, machine: &Machine, threads: usize) -> bool {
        p.kind == ConvKind::Forward
            && p.dtype == DType::F32
            && machine.bf16_tiles
            && amx::accepts(&p.g, threads)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn amx_accepts(_: &ConvProblem, _: &Machine, _: usize) -> bool {
        false
    }

    #[cfg(target_arch = "x86_64")]
    fn amx_pays(p: &ConvProblem) -> bool {
        amx::pays(&p.g)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn amx_pays(_: &ConvProblem) -> bool {
        false
    }
}

impl Algorithm for ConvAlgorithm {
    type Problem = ConvProblem;
    const OP: &'static str = "conv";
    const ALL: &'static [Self] = &[
        Depthwise,
        Amx,
        Direct,
        Winograd,
        DirectTiles,
        ImplicitGemm,
        Im2col,
    ];

    fn name(self) -> &'static str {
        match self {
            Depthwise => "depthwise",
            Amx => "amx",
            Direct => "direct",
            Winograd => "winograd",
            DirectTiles => "direct-tiles",
            ImplicitGemm => "implicit-gemm",
            Im2col => "im2col",
        }
    }

    fn accepts(self, p: &ConvProblem, machine: &Machine) -> bool {
        let some = p.has_terms() && p.g.window() > 0;
        match self {
            Depthwise => some && p.kind == ConvKind::Forward && depthwise::accepts(p, machine),
            Amx => some && Self::amx_accepts(p, machine, machine.cores),
            Direct => some && direct::accepts(p, machine),
            Winograd => some && p.winograd().is_some(),
            DirectTiles => {
                some && p.is_windowed()
                    && p.kind != ConvKind::Weight
                    && direct_tiles::accepts(p, machine, machine.cores)
            }
            ImplicitGemm => {
                some && p.is_windowed()
                    && (p.kind != ConvKind::Transposed || forward_geometry(&p.g).is_some())
            }
            Im2col => true,
        }
    }

    fn choose(p: &ConvProblem, machine: &Machine, threads: usize) -> (Self, &'static str) {
        if !p.has_terms() || p.g.window() == 0 {
            return (Im2col, "nothing to sum");
        }
        if p.kind == ConvKind::Forward && depthwise::accepts(p, machine) {
            return (Depthwise, "depthwise, 3 x 3, stride 1, same size");
        }
        if p.winograd()
            .is_some_and(|g| winograd::pays(p.kind, &g, machine))
        {
            return (
                Winograd,
                "3 x 3, stride 1, many channels: a quarter of the multiply-adds",
            );
        }
        if Self::amx_accepts(p, machine, threads) && Self::amx_pays(p) {
            return (Amx, "the machine has AMX, and splitting is repaid");
        }
        p.for_any_value(machine, threads)
    }
}

#[cfg(feature = "unit-tests")]
pub(crate) mod tests {
    use super::*;

    fn square(
        kind: ConvKind,
        dtype: DType,
        [images, groups, in_channels, out_channels]: [usize; 4],
        [size, kernel, stride, padding, dilation]: [usize; 5],
    ) -> Option<ConvProblem> {
        let reach = (kernel - 1) * dilation + 1;
        let output = (size + 2 * padding).checked_sub(reach)? / stride + 1;
        let g = Geometry {
            images,
            groups,
            in_channels,
            out_channels,
            input: [1, size, size],
            output: [1, output, output],
            kernel: [1, kernel, kernel],
            stride: [1, stride, stride],
            padding: [0, padding, padding],
            dilation: [1, dilation, dilation],
        };
        Some(ConvProblem { kind, dtype, g })
    }

    const WAYS: [ConvKind; 3] = [ConvKind::Forward, ConvKind::Transposed, ConvKind::Weight];

    /// Problems of many kinds.
    pub(crate) fn problems() -> Vec<ConvProblem> {
        let mut all = Vec::new();
        let channels = [
            [1, 1, 1, 1],
            [2, 1, 3, 16],
            [4, 8, 1, 1],
            [2, 2, 16, 16],
            [1, 1, 64, 64],
            [8, 1, 130, 70],
        ];
        for of in channels {
            for size in [1, 2, 7, 28, 100] {
                for kernel in [1, 2, 3, 7] {
                    for [stride, padding, dilation] in [[1, 0, 1], [1, 1, 1], [2, 3, 1], [9, 0, 2]]
                    {
                        for kind in WAYS {
                            for dtype in [DType::F32, DType::F64, DType::C64, DType::I64] {
                                let sizes = [size, kernel, stride, padding, dilation];
                                all.extend(square(kind, dtype, of, sizes));
                            }
                        }
                    }
                }
            }
        }
        all
    }

    /// The shapes of `torsh-bench`.
    pub(crate) fn benchmark() -> Vec<ConvProblem> {
        let shapes = [
            ([8, 1, 64, 64], [56, 3, 1, 1, 1]),
            ([8, 1, 128, 128], [28, 3, 1, 1, 1]),
            ([8, 1, 512, 512], [7, 3, 1, 1, 1]),
            ([8, 1, 64, 256], [56, 1, 1, 0, 1]),
            ([8, 1, 256, 512], [56, 1, 2, 0, 1]),
            ([8, 128, 1, 1], [56, 3, 1, 1, 1]),
            ([8, 1, 3, 64], [224, 7, 2, 3, 1]),
            ([64, 1, 1, 32], [28, 3, 1, 1, 1]),
        ];
        let mut all = Vec::new();
        for (of, sizes) in shapes {
            all.extend(
                WAYS.iter()
                    .filter_map(|&kind| square(kind, DType::F32, of, sizes)),
            );
        }
        all
    }
}
