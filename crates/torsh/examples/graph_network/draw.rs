//! Draws the graph.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight};
use torsh::prelude::*;

use crate::common::canvas::{Canvas, INK, PAPER, Rgb, disc, line, text, text_width};
use crate::graph::Digits;

/// A colour for each digit.
const COLORS: [Rgb; 10] = [
    [31, 119, 180],
    [255, 127, 14],
    [44, 160, 44],
    [214, 39, 40],
    [148, 103, 189],
    [140, 86, 75],
    [227, 119, 194],
    [127, 127, 127],
    [188, 189, 34],
    [23, 190, 207],
];

const SIDE: i64 = 1000;
const MARGIN: i64 = 32;
const TOP: i64 = 104;

/// The graph with its nodes at `places` `[n, 2]`, in the colours of their digits. A node that the network takes for
/// another digit has a ring in the colour of that digit. A node whose label was `known` has a black ring.
pub fn picture(
    digits: &Digits,
    edges: &Tensor,
    places: &Tensor,
    predicted: &Tensor,
    known: &Tensor,
) -> Result<Canvas> {
    let mut img = Canvas::new(SIDE + 2 * MARGIN, TOP + SIDE + MARGIN, PAPER);
    heading(&mut img);

    let (low, _) = places.min_dim(0, false)?;
    let (high, _) = places.max_dim(0, false)?;
    let size = high.sub(&low)?.max()?;
    let places = places.sub(&low)?.div(&size)?.mul(SIDE as f64)?;
    let places = places.to_dtype(DType::F64)?.to_vec2::<f64>()?;
    let at = |node: usize| {
        let place = &places[node];
        [MARGIN as f64 + place[0], TOP as f64 + place[1]]
    };
    let [from, to] = [0, 1].map(|end: i64| edges.select(0, end)?.to_vec::<i64>());
    for (from, to) in from?.into_iter().zip(to?) {
        line(&mut img, at(from as usize), at(to as usize), INK, 0.25);
    }
    let mut is_known = vec![false; places.len()];
    for node in known.to_vec::<i64>()? {
        is_known[node as usize] = true;
    }
    let (labels, predicted) = (digits.labels.to_vec::<i64>()?, predicted.to_vec::<i64>()?);
    for node in 0..places.len() {
        let (truth, said) = (labels[node] as usize, predicted[node] as usize);
        if is_known[node] {
            disc(&mut img, at(node), 8.0, INK);
        } else if truth != said {
            disc(&mut img, at(node), 8.0, COLORS[said]);
            disc(&mut img, at(node), 5.5, PAPER);
        }
        disc(&mut img, at(node), 4.0, COLORS[truth]);
    }
    Ok(img)
}

/// What is seen, and the colours.
fn heading(img: &mut Canvas) {
    let (large, small) = (RasterHeight::Size20, RasterHeight::Size16);
    let (bold, plain) = (FontWeight::Bold, FontWeight::Regular);
    let title = "Handwritten digits and their nearest neighbours";
    text(img, MARGIN, 14, title, large, bold, INK);
    let rings = "black ring: the label is known; coloured ring: taken for the digit of this colour";
    text(img, MARGIN, 42, rings, small, plain, INK);
    let mut x = MARGIN + 8;
    for (digit, color) in COLORS.into_iter().enumerate() {
        let digit = digit.to_string();
        disc(img, [x as f64, 76.0], 6.0, color);
        text(img, x + 12, 68, &digit, small, plain, INK);
        x += 44 + text_width(&digit, small, plain);
    }
}
