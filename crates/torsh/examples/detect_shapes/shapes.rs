//! Images of circles, squares and triangles, drawn from a seed.

use torsh::prelude::*;
use torsh::vision::models::detection::Target;

/// The width and height of the images.
pub const SIDE: usize = 96;

/// The classes; 0 is background.
pub const NAMES: [&str; 4] = ["background", "circle", "square", "triangle"];

/// Draws one image after the other.
pub struct Shapes {
    state: u64,
}

impl Shapes {
    pub fn new(seed: u64) -> Shapes {
        Shapes {
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D,
        }
    }

    /// A number from 0 to 1 (xorshift).
    fn random(&mut self) -> f64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number between these.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random()
    }

    /// So many images with what is in them.
    pub fn batch(&mut self, n: usize) -> Result<(Vec<Tensor>, Vec<Target>)> {
        let (mut images, mut targets) = (Vec::new(), Vec::new());
        for _ in 0..n {
            let (image, target) = self.image()?;
            images.push(image);
            targets.push(target);
        }
        Ok((images, targets))
    }

    fn image(&mut self) -> Result<(Tensor, Target)> {
        let ground = [0; 3].map(|_| self.between(0.1, 0.5));
        let mut pixels = vec![0f32; 3 * SIDE * SIDE];
        for (at, v) in pixels.iter_mut().enumerate() {
            *v = (ground[at / (SIDE * SIDE)] + self.between(-0.06, 0.06)) as f32;
        }
        let (mut boxes, mut labels): (Vec<[f64; 4]>, Vec<i64>) = (Vec::new(), Vec::new());
        let wanted = 1 + (self.random() * 3.0) as usize;
        for _ in 0..20 {
            if boxes.len() == wanted {
                break;
            }
            let size = self.between(16.0, 42.0).floor();
            let x = self.between(1.0, SIDE as f64 - size - 1.0).floor();
            let y = self.between(1.0, SIDE as f64 - size - 1.0).floor();
            let corners = [x, y, x + size, y + size];
            let apart = |b: &[f64; 4]| {
                corners[2] < b[0] || b[2] < corners[0] || corners[3] < b[1] || b[3] < corners[1]
            };
            if !boxes.iter().all(apart) {
                continue;
            }
            let label = 1 + (self.random() * 3.0) as i64;
            let color = [0; 3].map(|_| self.between(0.45, 1.0));
            draw(&mut pixels, corners, label, color);
            boxes.push(corners);
            labels.push(label);
        }
        let n = boxes.len();
        let corners: Vec<f32> = boxes.iter().flatten().map(|&v| v as f32).collect();
        let target = Target::new(
            Tensor::from_vec(corners, [n, 4])?,
            Tensor::from_vec(labels, [n])?,
        );
        Ok((Tensor::from_vec(pixels, [3, SIDE, SIDE])?, target))
    }
}

/// Fills the shape in its box.
fn draw(pixels: &mut [f32], [x1, y1, x2, y2]: [f64; 4], label: i64, color: [f64; 3]) {
    let half = (x2 - x1) / 2.0;
    for row in y1 as usize..y2 as usize {
        for column in x1 as usize..x2 as usize {
            // From the middle of the box, in halves of its side.
            let across = (column as f64 + 0.5 - x1) / half - 1.0;
            let down = (row as f64 + 0.5 - y1) / half - 1.0;
            let inside = match label {
                1 => across * across + down * down <= 1.0,
                2 => true,
                _ => across.abs() <= (down + 1.0) / 2.0,
            };
            if inside {
                for (channel, value) in color.iter().enumerate() {
                    pixels[(channel * SIDE + row) * SIDE + column] = *value as f32;
                }
            }
        }
    }
}
