//! The windows of a pooling: along each dimension a table of where they begin and end.

use torsh_core::{Kernel, KernelArgs, Result, TorshError, View, attrs};

use crate::kernels::spatial::three;
use crate::memory::operands::missing;

/// One window along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// The first position inside the image.
    pub start: usize,
    /// One past the last inside.
    pub end: usize,
    /// How many positions it has, those in the padding included.
    pub padded: usize,
}

/// The windows along one dimension.
#[derive(Debug)]
pub(super) struct PoolAxis {
    pub input: usize,
    pub windows: Vec<Window>,
    /// Steps between a window's elements.
    pub dilation: usize,
}

impl PoolAxis {
    /// Windows of `kernel` elements, `stride` apart.
    fn sliding(
        input: usize,
        output: usize,
        [kernel, stride, padding, dilation]: [usize; 4],
    ) -> Option<PoolAxis> {
        let too_large = [kernel, stride, padding, dilation]
            .iter()
            .any(|&v| v > 1 << 31);
        if too_large || kernel == 0 || dilation == 0 {
            return None;
        }
        let span = (kernel - 1) * dilation + 1;
        // No position may overflow.
        output.checked_mul(stride)?.checked_add(span)?;
        let window = |i: usize| {
            // Taps before the image are left out, by whole dilations.
            let at = i * stride;
            let skipped = padding.saturating_sub(at).div_ceil(dilation);
            let start = (at + skipped * dilation).saturating_sub(padding).min(input);
            let end = (at + span).saturating_sub(padding).clamp(start, input);
            Window {
                start,
                end,
                padded: (at + span).min(input + 2 * padding).saturating_sub(at),
            }
        };
        Some(PoolAxis {
            input,
            windows: (0..output).map(window).collect(),
            dilation,
        })
    }

    /// Windows that share the input as evenly as can be.
    fn adaptive(input: usize, output: usize) -> PoolAxis {
        let window = |i: usize| {
            let of = |i: usize| i as u128 * input as u128;
            let (start, end) = (of(i) / output as u128, of(i + 1).div_ceil(output as u128));
            Window {
                start: start as usize,
                end: end as usize,
                padded: (end - start) as usize,
            }
        };
        PoolAxis {
            input,
            windows: (0..output).map(window).collect(),
            dilation: 1,
        }
    }

    /// For each position of the input the windows that hold it, as a range (windows begin and end
    /// in order); only for a dilation of 1.
    pub fn holders(&self) -> Vec<(usize, usize)> {
        let (mut first, mut end) = (0, 0);
        (0..self.input)
            .map(|i| {
                while first < self.windows.len() && self.windows[first].end <= i {
                    first += 1;
                }
                while end < self.windows.len() && self.windows[end].start <= i {
                    end += 1;
                }
                (first, end.max(first))
            })
            .collect()
    }
}

/// What a call says of its windows.
pub(super) enum PoolWindows<'a> {
    /// Sizes for each spatial dimension.
    Sliding {
        kernel_size: &'a [i64],
        stride: &'a [i64],
        padding: &'a [i64],
        /// Empty where it is 1.
        dilation: &'a [i64],
    },
    /// As many windows as the pooled view has elements, in so many spatial dimensions.
    Adaptive(usize),
}

impl<'a> PoolWindows<'a> {
    /// Reads the attributes of a pooling or its transpose.
    pub fn new(args: &KernelArgs<'a>) -> Result<PoolWindows<'a>> {
        Ok(match args.kernel() {
            Kernel::MaxPool => {
                let a = args.attrs::<attrs::MaxPool>()?;
                PoolWindows::Sliding {
                    kernel_size: &a.kernel_size,
                    stride: &a.stride,
                    padding: &a.padding,
                    dilation: &a.dilation,
                }
            }
            Kernel::AdaptiveMaxPool => {
                PoolWindows::Adaptive(args.attrs::<attrs::AdaptiveMaxPool>()?.spatial)
            }
            Kernel::AvgPool | Kernel::AvgPoolBackward => {
                let a = args.attrs::<attrs::AvgPool>()?;
                PoolWindows::Sliding {
                    kernel_size: &a.kernel_size,
                    stride: &a.stride,
                    padding: &a.padding,
                    dilation: &[],
                }
            }
            _ => PoolWindows::Adaptive(args.attrs::<attrs::AdaptiveAvgPool>()?.spatial),
        })
    }

    /// How many of the last dimensions are spatial.
    pub fn spatial(&self) -> usize {
        match self {
            PoolWindows::Sliding { kernel_size, .. } => kernel_size.len(),
            PoolWindows::Adaptive(spatial) => *spatial,
        }
    }
}

/// A pooling: its planes and the windows in each.
#[derive(Debug)]
pub(super) struct PoolGeometry {
    pub planes: usize,
    /// Depth, height, width.
    pub axes: [PoolAxis; 3],
}

impl PoolGeometry {
    /// The windows of a call in its views, of which `small` is the pooled one.
    pub fn new(
        windows: &PoolWindows<'_>,
        large: &View<'_>,
        small: &View<'_>,
    ) -> Result<PoolGeometry> {
        let n = windows.spatial();
        let (planes, input) = split(large, n)?;
        let (same, output) = split(small, n)?;
        if planes != same {
            return Err(missing());
        }
        if small.shape().contains(&0) {
            // No windows; sizes beside a 0 may be anything.
            let nothing = large.shape().contains(&0);
            let axis = |input| PoolAxis {
                input: if nothing { 0 } else { input },
                windows: Vec::new(),
                dilation: 1,
            };
            return Ok(PoolGeometry {
                planes: if nothing { 0 } else { planes },
                axes: input.map(axis),
            });
        }
        let axes: [Option<PoolAxis>; 3] = match windows {
            PoolWindows::Adaptive(_) => {
                std::array::from_fn(|d| Some(PoolAxis::adaptive(input[d], output[d])))
            }
            PoolWindows::Sliding {
                kernel_size,
                stride,
                padding,
                dilation,
            } => {
                let (kernel, stride) = (three(kernel_size, 1)?, three(stride, 1)?);
                let (padding, dilation) = (three(padding, 0)?, three(dilation, 1)?);
                std::array::from_fn(|d| {
                    let window = [kernel[d], stride[d], padding[d], dilation[d]];
                    PoolAxis::sliding(input[d], output[d], window)
                })
            }
        };
        match axes {
            [Some(a), Some(b), Some(c)] => Ok(PoolGeometry {
                planes,
                axes: [a, b, c],
            }),
            _ => Err(TorshError::invalid(
                "",
                "the sizes of the window are larger than any image",
            )),
        }
    }

    /// Depth, height and width of the image.
    pub fn input(&self) -> [usize; 3] {
        self.axes.each_ref().map(|a| a.input)
    }

    /// Windows along each of them.
    pub fn output(&self) -> [usize; 3] {
        self.axes.each_ref().map(|a| a.windows.len())
    }

    /// The most rows of a window.
    pub fn rows(&self) -> usize {
        let longest = |axis: &PoolAxis| {
            let span = |w: &Window| (w.end - w.start).div_ceil(axis.dilation);
            axis.windows.iter().map(span).max().unwrap_or(0)
        };
        longest(&self.axes[0]) * longest(&self.axes[1])
    }

    /// Elements of a plane of the input.
    pub fn in_pixels(&self) -> usize {
        self.axes.iter().map(|a| a.input).product()
    }

    /// Elements of a plane of the output.
    pub fn out_pixels(&self) -> usize {
        self.axes.iter().map(|a| a.windows.len()).product()
    }

    /// Reads of all windows together, about.
    pub fn reads(&self) -> usize {
        let along = |a: &PoolAxis| -> usize { a.windows.iter().map(|w| w.end - w.start).sum() };
        self.axes
            .iter()
            .fold(self.planes, |n, a| n.saturating_mul(along(a).max(1)))
    }
}

/// The number of planes, and the sizes of the last `n` dimensions.
fn split(v: &View<'_>, n: usize) -> Result<(usize, [usize; 3])> {
    let at = v.shape().len().checked_sub(n).ok_or_else(missing)?;
    Ok((
        v.shape()[..at].iter().product(),
        three(&v.shape()[at..], 1)?,
    ))
}

/// How many elements an average is over.
#[derive(Clone, Copy, Debug)]
pub(super) enum Divisor {
    /// Those of the window inside the image.
    Inside,
    /// Those in the padding too.
    Padded,
    /// Always this number.
    Given(f64),
}

impl Divisor {
    /// The divisor that sliding windows are asked to have.
    pub fn of_sliding(a: &attrs::AvgPool) -> Divisor {
        match (a.divisor_override, a.count_include_pad) {
            (Some(n), _) => Divisor::Given(n as f64),
            (None, true) => Divisor::Padded,
            (None, false) => Divisor::Inside,
        }
    }

    /// The number for a window; never 0.
    #[inline(always)]
    pub fn of(self, [z, y, x]: [Window; 3]) -> f64 {
        match self.across([z, y]) * self.along(x) {
            0.0 => 1.0,
            n => n,
        }
    }

    /// What the last dimension gives to the number, by which the others' is multiplied.
    #[inline(always)]
    pub fn along(self, window: Window) -> f64 {
        match self {
            Divisor::Inside => (window.end - window.start) as f64,
            Divisor::Padded => window.padded as f64,
            Divisor::Given(_) => 1.0,
        }
    }

    /// What the first two dimensions give to it.
    #[inline(always)]
    pub fn across(self, [z, y]: [Window; 2]) -> f64 {
        match self {
            Divisor::Given(n) => n,
            _ => self.along(z) * self.along(y),
        }
    }
}
