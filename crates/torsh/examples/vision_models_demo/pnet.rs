//! P-Net, which finds faces: the first network of MTCNN (K. Zhang et al., "Joint Face Detection and Alignment using
//! Multi-task Cascaded Convolutional Networks", 2016).

use torsh::prelude::*;
use torsh::vision::ops;

/// The side of the squares that P-Net looks at, in pixels.
const WINDOW: f64 = 12.0;

/// The step between squares, in pixels.
const STRIDE: f64 = 2.0;

/// For each square of 12 x 12 pixels, the probability of a face and the face's box.
#[derive(Module)]
pub struct PNet {
    conv1: Conv2d,
    prelu1: PReLU,
    pool1: MaxPool2d,
    conv2: Conv2d,
    prelu2: PReLU,
    conv3: Conv2d,
    prelu3: PReLU,
    conv4_1: Conv2d,
    conv4_2: Conv2d,
}

impl PNet {
    /// The network with the weights of facenet-pytorch.
    pub fn pretrained() -> Result<PNet> {
        let net = PNet {
            conv1: Conv2d::builder(3, 10, 3).build()?,
            prelu1: PReLU::builder().num_parameters(10).build()?,
            pool1: MaxPool2d::builder(2).stride(2).ceil_mode(true).build()?,
            conv2: Conv2d::builder(10, 16, 3).build()?,
            prelu2: PReLU::builder().num_parameters(16).build()?,
            conv3: Conv2d::builder(16, 32, 3).build()?,
            prelu3: PReLU::builder().num_parameters(32).build()?,
            conv4_1: Conv2d::builder(32, 2, 1).build()?,
            conv4_2: Conv2d::builder(32, 4, 1).build()?,
        };
        let file = torsh::serialize::load_bytes(include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../data/pnet/pnet.pt"
        )))?;
        net.load_state_dict(&StateDict::try_from(&file)?)?;
        Ok(net)
    }

    /// Probabilities `[h, w]` of faces and shifts `[4, h, w]` of an image `[1, 3, height, width]`.
    fn maps(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let x = self.forward(x)?;
        let scores = F::softmax(&self.conv4_1.forward(&x)?, 1)?;
        Ok((scores.i((0, 1))?, self.conv4_2.forward(&x)?.i(0)?))
    }

    /// The boxes `[n, 4]` and scores `[n]` of faces in an image `[3, height, width]` of uint8, for faces from `smallest`
    /// pixels on.
    pub fn detect(
        &self,
        image: &Tensor,
        smallest: f64,
        threshold: f64,
    ) -> Result<(Tensor, Tensor)> {
        let (height, width) = (image.dims()[1] as f64, image.dims()[2] as f64);
        let image = image.to_dtype(DType::F32)?.unsqueeze(0)?;
        let (mut boxes, mut scores) = (vec![zeros(&[0, 4])], vec![zeros(&[0])]);
        // The network's faces have the size of its window, so the image is looked at in sizes.
        let mut scale = WINDOW / smallest;
        while scale * height.min(width) >= WINDOW {
            let size = |n: f64| (n * scale + 1.0) as usize;
            let area = F::InterpolateOptions::new()
                .size([size(height), size(width)])
                .mode(F::InterpolateMode::Area);
            let x = F::interpolate_with(&image, area)?
                .sub(127.5)?
                .mul(0.0078125)?;
            let (score, shift) = self.maps(&x)?;
            let columns = score.dims()[1] as i64;
            let score = score.reshape([-1])?;
            let found = score.ge(threshold)?.nonzero()?.squeeze(1)?;
            let score = score.index_select(0, &found)?;
            let (row, column) = (found.floor_divide(columns)?, found.remainder(columns)?);
            let corner = stack(&[&column, &row], 1)?
                .to_dtype(DType::F32)?
                .mul(STRIDE)?;
            let square = cat(&[&corner, &corner.add(WINDOW)?], 1)?;
            // The shift counts in sides of the window.
            let shift = shift.flatten(1)?.t()?.index_select(0, &found)?;
            let found = square.add(shift.mul(WINDOW)?)?.div(scale)?;
            let kept = ops::nms(&found, &score, 0.5)?;
            boxes.push(found.index_select(0, &kept)?);
            scores.push(score.index_select(0, &kept)?);
            scale *= 0.709;
        }
        let (boxes, scores) = (cat(&boxes, 0)?, cat(&scores, 0)?);
        let kept = ops::nms(&boxes, &scores, 0.3)?;
        let boxes = ops::clip_boxes_to_image(
            &boxes.index_select(0, &kept)?,
            [height as usize, width as usize],
        )?;
        Ok((boxes, scores.index_select(0, &kept)?))
    }
}

impl Module for PNet {
    /// The features that scores and boxes come from.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.prelu1.forward(&self.conv1.forward(x)?)?;
        let x = self
            .prelu2
            .forward(&self.conv2.forward(&self.pool1.forward(&x)?)?)?;
        self.prelu3.forward(&self.conv3.forward(&x)?)
    }
}
