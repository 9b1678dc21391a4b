//! Pictures of tensors, as `torchvision.utils`: grids, boxes, masks, key points, optical flow.
//!
//! ```
//! use torsh_tensor::{DType, tensor, zeros};
//! use torsh_vision::utils::{BoxOptions, draw_bounding_boxes_with, make_grid};
//!
//! assert_eq!(make_grid(&zeros([10, 3, 4, 4]))?.dims(), [3, 14, 50]);
//! let image = zeros([3, 40, 60]).to_dtype(DType::U8)?;
//! let options = BoxOptions::new().labels(["cat"]).colors([255, 0, 0]).width(2);
//! let drawn = draw_bounding_boxes_with(&image, &tensor![[5.0, 5.0, 50.0, 35.0]], options)?;
//! assert_eq!(drawn.i((.., 6, 20))?.to_vec::<u8>()?, [255, 0, 0]);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod canvas;
mod colors;

use std::path::Path;

use canvas::{Canvas, font};
pub use colors::{Color, Colors};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, options, stack};

use crate::io::{write_jpeg, write_png};
use crate::transforms::functional::to_dtype;

options! {
    /// The arguments of [`make_grid_with`] and [`save_image_with`].
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::utils::{GridOptions, make_grid_with};
    /// let options = GridOptions::new();
    /// assert_eq!((options.nrow, options.padding, options.pad_value), (8, 2, 0.0));
    /// let options = options.nrow(1).padding(1).pad_value(9.0);
    /// let grid = make_grid_with(&tensor![[[[1.0]]], [[[2.0]]]], options)?.select(0, 0)?;
    /// assert_eq!(grid, tensor![[9.0, 9.0, 9.0], [9.0, 1.0, 9.0], [9.0, 9.0, 9.0], [9.0, 2.0, 9.0], [9.0, 9.0, 9.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[derive(Copy, PartialEq)]
    GridOptions {
        /// How many images a row has.
        nrow: usize = 8;
        /// How many pixels lie between images.
        padding: usize = 2;
        /// Whether values are moved to 0 to 1.
        normalize: bool = false;
        /// Which values become 0 and 1; without, the least and the largest.
        value_range: Option<(f64, f64)> = None, impl Into<Option<(f64, f64)>> => Into::into;
        /// Whether each image has its own least and largest value.
        scale_each: bool = false;
        /// The value of pixels between images.
        pad_value: f64 = 0.0;
    }
}

options! {
    /// The arguments of [`draw_bounding_boxes_with`].
    #[derive(PartialEq)]
    BoxOptions {
        /// A text for each box.
        labels: Option<Vec<String>> = None, impl IntoLabels => |l| Some(l.labels());
        /// The boxes' colours.
        colors: Colors = Colors::Palette, impl Into<Colors> => Into::into;
        /// Whether boxes are filled, so that the image shines through.
        fill: bool = false;
        /// How wide the lines are.
        width: usize = 1;
        /// How high the texts are; 16, 20 or 24 pixels.
        font_size: usize = 16;
        /// The texts' colours; without, those of the boxes, or black on filled ones.
        label_colors: Option<Colors> = None, impl Into<Colors> => |c| Some(c.into());
        /// The colours behind the texts, with `fill_labels`; without, those of the boxes.
        label_background_colors: Option<Colors> = None, impl Into<Colors> => |c| Some(c.into());
        /// Whether there is a colour behind the texts.
        fill_labels: bool = false;
    }
}

options! {
    /// The arguments of [`draw_segmentation_masks_with`].
    ///
    /// ```
    /// use torsh_vision::utils::{Color, Colors, MaskOptions};
    /// assert_eq!(MaskOptions::new().alpha, 0.8);
    /// let options = MaskOptions::new().alpha(1.0).colors([255, 0, 0]);
    /// assert_eq!(options.colors, Colors::One(Color([255, 0, 0])));
    /// ```
    #[derive(PartialEq)]
    MaskOptions {
        /// How much the masks hide, from 0 to 1.
        alpha: f64 = 0.8;
        /// The masks' colours.
        colors: Colors = Colors::Palette, impl Into<Colors> => Into::into;
    }
}

options! {
    /// The arguments of [`draw_keypoints_with`].
    ///
    /// ```
    /// use torsh_vision::utils::{Color, KeyPointOptions};
    /// let options = KeyPointOptions::new();
    /// assert_eq!((options.colors, options.radius, options.width), (Color::WHITE, 2, 3));
    /// let options = options.connectivity([(0, 1), (1, 2)]).colors(Color([255, 0, 0]));
    /// assert_eq!(options.connectivity, [(0, 1), (1, 2)]);
    /// ```
    KeyPointOptions {
        /// Which points lines connect, by their numbers.
        connectivity: Vec<(usize, usize)> = Vec::new(), impl Into<Vec<(usize, usize)>> => Into::into;
        /// The points' colour.
        colors: Color = Color::WHITE, impl Into<Color> => Into::into;
        /// The points' radius.
        radius: usize = 2;
        /// How wide the lines are.
        width: usize = 3;
        /// Which points are drawn, `[instances, points]`; without, all.
        visibility: Option<Tensor> = None, impl Into<Option<Tensor>> => Into::into;
    }
}

/// Texts, one for each object: an array or a slice of `&str`, or a vector of strings.
///
/// ```
/// use torsh_vision::utils::IntoLabels;
/// assert_eq!(["cat", "dog"].labels(), ["cat", "dog"]);
/// assert_eq!(vec!["cat".to_string()].labels(), ["cat"]);
/// ```
pub trait IntoLabels {
    /// The texts.
    fn labels(self) -> Vec<String>;
}
impl<const N: usize> IntoLabels for [&str; N] {
    fn labels(self) -> Vec<String> {
        self.iter().map(|s| (*s).to_string()).collect()
    }
}
impl IntoLabels for &[&str] {
    fn labels(self) -> Vec<String> {
        self.iter().map(|s| (*s).to_string()).collect()
    }
}
impl IntoLabels for Vec<String> {
    fn labels(self) -> Vec<String> {
        self
    }
}

/// Several images as one, in rows of eight: [`make_grid_with`] and the defaults.
///
/// ```
/// use torsh_tensor::ones;
/// use torsh_vision::utils::make_grid;
/// let grid = make_grid(&ones([2, 1, 1, 1]))?;
/// // Two pixels side by side, and two of padding around each.
/// assert_eq!((grid.dims(), grid.sum()?.item::<f32>()?), (&[3, 5, 8][..], 2.0 * 3.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`make_grid_with`].
#[track_caller]
pub fn make_grid(images: &Tensor) -> Result<Tensor> {
    make_grid_with(images, GridOptions::new())
}

/// Several images `[n, channels, height, width]` as one, in rows. Grey images get three channels. One image is returned
/// as it is, `[channels, height, width]` or `[height, width]` as well.
///
/// # Errors
/// Another shape, no image, rows of none.
///
/// ```
/// use torsh_tensor::ones;
/// use torsh_vision::utils::{GridOptions, make_grid_with};
/// let grid = make_grid_with(&ones([3, 1, 2, 2]), GridOptions::new().nrow(2).padding(1))?;
/// assert_eq!(grid.dims(), [3, 7, 7]);
/// assert_eq!(grid.sum()?.item::<f32>()?, 3.0 * 3.0 * 4.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn make_grid_with(images: &Tensor, options: GridOptions) -> Result<Tensor> {
    const OP: &str = "make_grid";
    let mut x = images.detach();
    if x.ndim() == 2 {
        x = x.unsqueeze(0)?;
    }
    if x.ndim() == 3 {
        x = x.unsqueeze(0)?;
    }
    let [n, c, h, w] = *x.dims() else {
        return Err(TorshError::shape(
            OP,
            format!(
                "expected images [n, channels, height, width], got {}",
                images.describe()
            ),
        ));
    };
    if n == 0 || options.nrow == 0 {
        return Err(TorshError::invalid(
            OP,
            format!("{n} images in rows of {}", options.nrow),
        ));
    }
    let c = if c == 1 { 3 } else { c };
    let x = x.expand([n, c, h, w])?;
    let x = if options.normalize {
        normalized(&x, &options)?
    } else {
        x
    };
    if n == 1 {
        return x.select(0, 0)?.contiguous();
    }
    let columns = options.nrow.min(n);
    let rows = n.div_ceil(columns);
    let p = options.padding;
    let shape = [c, (h + p) * rows + p, (w + p) * columns + p];
    let grid = Tensor::full(shape, options.pad_value, x.dtype(), x.device())?;
    for k in 0..n {
        let (y, left) = (k / columns, k % columns);
        grid.narrow(1, y * (h + p) + p, h)?
            .narrow(2, left * (w + p) + p, w)?
            .copy_(&x.select(0, k)?)?;
    }
    Ok(grid)
}

/// The values from 0 to 1.
fn normalized(x: &Tensor, options: &GridOptions) -> Result<Tensor> {
    let to_unit = |x: &Tensor| {
        let (low, high) = match options.value_range {
            Some(range) => range,
            None => (x.min()?.item::<f64>()?, x.max()?.item::<f64>()?),
        };
        x.clamp(low, high)?.sub(low)?.div((high - low).max(1e-5))
    };
    if !options.scale_each {
        return to_unit(x);
    }
    let each = (0..x.dims()[0])
        .map(|i| to_unit(&x.select(0, i)?))
        .collect::<Result<Vec<_>>>()?;
    stack(&each, 0)
}

/// Writes images from 0 to 1 as one picture: [`save_image_with`] and the defaults.
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::io::read_image;
/// use torsh_vision::utils::save_image;
/// # let path = std::env::temp_dir().join(format!("torsh-save-{}.png", std::process::id()));
/// save_image(&tensor![[[1.0, 0.0]], [[0.0, 0.0]], [[0.0, 1.0]]], &path)?;
/// let read = read_image(&path)?;
/// assert_eq!(read, tensor![[[255, 0]], [[0, 0]], [[0, 255]]].to_dtype(DType::U8)?);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`save_image_with`].
#[track_caller]
pub fn save_image(images: &Tensor, path: impl AsRef<Path>) -> Result<()> {
    save_image_with(images, path, GridOptions::new())
}

/// Writes images as one picture, PNG or JPEG as the path ends: floating-point ones from 0 to 1, uint8 ones as they are, and
/// int32 ones of 16 bits scaled to 8.
///
/// ```
/// use torsh_tensor::ones;
/// use torsh_vision::io::read_image;
/// use torsh_vision::utils::{GridOptions, save_image_with};
/// # let path = std::env::temp_dir().join(format!("torsh-save-with-{}.png", std::process::id()));
/// let options = GridOptions::new().padding(0).nrow(1);
/// save_image_with(&ones([2, 3, 4, 4]), &path, options)?;
/// assert_eq!(read_image(&path)?.dims(), [3, 8, 4]);
/// let error = save_image_with(&ones([3, 4, 4]), "a.bmp", options).unwrap_err().to_string();
/// assert!(error.contains("a.bmp ends in neither png nor jpg"));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`make_grid_with`], another dtype or ending, and where the file cannot be written.
#[torsh_tensor::names_caller]
pub fn save_image_with(
    images: &Tensor,
    path: impl AsRef<Path>,
    options: GridOptions,
) -> Result<()> {
    const OP: &str = "save_image";
    let path = path.as_ref();
    let grid = make_grid_with(images, options).map_err(|e| e.renamed(OP))?;
    let bytes = match grid.dtype() {
        DType::U8 | DType::I32 => to_dtype(&grid, DType::U8, true).map_err(|e| e.renamed(OP))?,
        dtype if dtype.is_floating_point() => grid
            .to_dtype(if dtype == DType::F64 {
                dtype
            } else {
                DType::F32
            })?
            .mul(255.0)?
            .add(0.5)?
            .clamp(0.0, 255.0)?
            .to_dtype(DType::U8)?,
        _ => {
            let why = format!(
                "expected images of floating-point numbers, uint8 or int32, got {}",
                images.describe()
            );
            return Err(TorshError::dtype(OP, why));
        }
    };
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    match ending.to_ascii_lowercase().as_str() {
        "png" => write_png(&bytes, path),
        "jpg" | "jpeg" => write_jpeg(&bytes, path),
        _ => Err(TorshError::invalid(
            OP,
            format!("{} ends in neither png nor jpg", path.display()),
        )),
    }
}

/// An image that is drawn on; `gray` says whether one channel will do.
#[track_caller]
fn canvas(op: &'static str, image: &Tensor, gray: bool) -> Result<Canvas> {
    let fits = match image.dims() {
        [3, _, _] => true,
        [1, _, _] => gray,
        _ => false,
    };
    if !fits || !(image.dtype() == DType::U8 || image.dtype().is_floating_point()) {
        let channels = if gray { "1 or 3" } else { "3" };
        return Err(TorshError::shape(
            op,
            format!(
                "expected an image [{channels}, height, width] of uint8 or floating-point numbers, got {}",
                image.describe()
            ),
        ));
    }
    let (height, width) = (image.dims()[1], image.dims()[2]);
    let bytes = to_dtype(&image.detach(), DType::U8, true)?;
    Ok(Canvas {
        data: bytes.expand([3, height, width])?.to_vec()?,
        height,
        width,
    })
}

/// A coordinate without its fraction, so small that sums of them are numbers.
fn pixel(v: f64) -> i64 {
    (v as i64).clamp(-(1 << 40), 1 << 40)
}

/// The canvas as an image like another.
fn finished(canvas: &Canvas, image: &Tensor) -> Result<Tensor> {
    let out = Tensor::from_bytes(&canvas.data, DType::U8, [3, canvas.height, canvas.width])?;
    to_dtype(&out, image.dtype(), true)?.to_device(image.device())
}

/// The image with boxes: [`draw_bounding_boxes_with`] and the defaults.
///
/// ```
/// use torsh_tensor::{DType, full, tensor};
/// use torsh_vision::utils::draw_bounding_boxes;
/// let white = full([3, 6, 6], 255).to_dtype(DType::U8)?;
/// let drawn = draw_bounding_boxes(&white, &tensor![[1.0, 1.0, 4.0, 4.0]])?;
/// // The first colour is black, the lines are one pixel wide.
/// assert_eq!(drawn.i((0, 1))?.to_vec::<u8>()?, [255, 0, 0, 0, 0, 255]);
/// assert_eq!(drawn.i((0, 2))?.to_vec::<u8>()?, [255, 0, 255, 255, 0, 255]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`draw_bounding_boxes_with`].
#[track_caller]
pub fn draw_bounding_boxes(image: &Tensor, boxes: &Tensor) -> Result<Tensor> {
    draw_bounding_boxes_with(image, boxes, BoxOptions::new())
}

/// The image `[3 or 1, height, width]` with boxes `[n, 4]` of left, top, right, bottom, or `[n, 8]` of the corners of
/// rotated ones. The result has three channels.
///
/// ```
/// use torsh_tensor::{DType, tensor, zeros};
/// use torsh_vision::utils::{BoxOptions, draw_bounding_boxes_with};
/// let black = zeros([3, 6, 6]).to_dtype(DType::U8)?;
/// let options = BoxOptions::new().colors([255, 0, 0]).width(2);
/// let drawn = draw_bounding_boxes_with(&black, &tensor![[0.0, 0.0, 5.0, 5.0]], options)?;
/// assert_eq!(drawn.i((0, 2))?.to_vec::<u8>()?, [255, 255, 0, 0, 255, 255]);
/// let two = BoxOptions::new().labels(["cat", "dog"]);
/// let error = draw_bounding_boxes_with(&black, &tensor![[0.0, 0.0, 5.0, 5.0]], two).unwrap_err();
/// assert!(error.to_string().contains("2 labels for 1 boxes"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Other shapes, a box that ends before it begins, fewer labels or colours than boxes.
#[torsh_tensor::names_caller]
pub fn draw_bounding_boxes_with(
    image: &Tensor,
    boxes: &Tensor,
    options: BoxOptions,
) -> Result<Tensor> {
    const OP: &str = "draw_bounding_boxes";
    let mut canvas = canvas(OP, image, true)?;
    let [n, numbers @ (4 | 8)] = *boxes.dims() else {
        return Err(TorshError::shape(
            OP,
            format!("boxes are [n, 4] or [n, 8], got {}", boxes.describe()),
        ));
    };
    let all = boxes.to_dtype(DType::F64)?.to_vec::<f64>()?;
    let labels = options.labels.unwrap_or_default();
    if !labels.is_empty() && labels.len() != n {
        return Err(TorshError::invalid(
            OP,
            format!("{} labels for {n} boxes", labels.len()),
        ));
    }
    let colors = options.colors.take(OP, n)?;
    let label_colors = match (&options.label_colors, options.fill_labels) {
        (Some(c), _) => c.take(OP, n)?,
        (None, true) => vec![Color::BLACK; n],
        (None, false) => colors.clone(),
    };
    let backgrounds = match &options.label_background_colors {
        Some(c) => c.take(OP, n)?,
        None => colors.clone(),
    };
    let font = font(options.font_size);
    for (i, b) in all.chunks_exact(numbers).enumerate() {
        let p: Vec<i64> = b.iter().map(|&v| pixel(v)).collect();
        if numbers == 4 {
            let corners = [p[0], p[1], p[2], p[3]];
            if b[0] > b[2] || b[1] > b[3] {
                return Err(TorshError::invalid(
                    OP,
                    format!("box {i} {b:?} is not left, top, right, bottom"),
                )
                .with_hint("ops::box_convert converts boxes"));
            }
            if options.fill {
                canvas.rectangle(corners, colors[i], 100);
            }
            canvas.frame(corners, options.width, colors[i]);
        } else {
            let corners: Vec<[f64; 2]> = p
                .chunks_exact(2)
                .map(|p| [p[0] as f64, p[1] as f64])
                .collect();
            if options.fill {
                canvas.polygon(&corners, colors[i], 100);
            }
            for k in 0..4 {
                canvas.line(corners[k], corners[(k + 1) % 4], options.width, colors[i]);
            }
        }
        if let Some(label) = labels.get(i) {
            let margin = options.width as i64 + 1;
            let (x, y) = (p[0] + margin, p[1] + margin);
            if options.fill_labels {
                let (w, h) = Canvas::text_size(label, font);
                canvas.rectangle([x - 1, y - 1, x + w, y + h], backgrounds[i], 255);
            }
            canvas.text(x, y, label, font, label_colors[i]);
        }
    }
    finished(&canvas, image)
}

/// The image with masks: [`draw_segmentation_masks_with`] and the defaults.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::utils::draw_segmentation_masks;
/// let white = tensor![[[1.0, 1.0]], [[1.0, 1.0]], [[1.0, 1.0]]];
/// let drawn = draw_segmentation_masks(&white, &tensor![[true, false]])?;
/// // The first colour is black, of which 0.8 is mixed in.
/// assert!(drawn.select(0, 0)?.allclose(&tensor![[0.2, 1.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`draw_segmentation_masks_with`].
#[track_caller]
pub fn draw_segmentation_masks(image: &Tensor, masks: &Tensor) -> Result<Tensor> {
    draw_segmentation_masks_with(image, masks, MaskOptions::new())
}

/// The image `[3, height, width]` with masks of bools, `[n, height, width]` or `[height, width]`, in colours. Where two
/// masks overlap it is dark.
///
/// ```
/// use torsh_tensor::{DType, tensor, zeros};
/// use torsh_vision::utils::{MaskOptions, draw_segmentation_masks_with};
/// let black = zeros([3, 1, 2]).to_dtype(DType::U8)?;
/// let options = MaskOptions::new().alpha(1.0).colors([255, 10, 20]);
/// let drawn = draw_segmentation_masks_with(&black, &tensor![[true, false]], options)?;
/// assert_eq!(drawn.to_vec::<u8>()?, [255, 0, 10, 0, 20, 0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Other shapes or dtypes, fewer colours than masks.
#[torsh_tensor::names_caller]
pub fn draw_segmentation_masks_with(
    image: &Tensor,
    masks: &Tensor,
    options: MaskOptions,
) -> Result<Tensor> {
    const OP: &str = "draw_segmentation_masks";
    let [3, h, w] = *image.dims() else {
        return Err(TorshError::shape(
            OP,
            format!(
                "expected an image [3, height, width], got {}",
                image.describe()
            ),
        ));
    };
    let dtype = image.dtype();
    let masks = if masks.ndim() == 2 {
        masks.unsqueeze(0)?
    } else {
        masks.clone()
    };
    let fits = masks.ndim() == 3 && masks.dims()[1..] == [h, w] && masks.dtype() == DType::Bool;
    if !fits || !(dtype == DType::U8 || dtype.is_floating_point()) {
        return Err(TorshError::shape(
            OP,
            format!(
                "expected an image of uint8 or floating-point numbers and masks bool[n, {h}, {w}], got {} and {}",
                image.describe(),
                masks.describe()
            ),
        ));
    }
    let n = masks.dims()[0];
    if n == 0 {
        return Ok(image.clone());
    }
    let scale = if dtype == DType::U8 { 1.0 } else { 1.0 / 255.0 };
    let covered = masks.to_vec::<bool>()?;
    let mut painted: Vec<f64> = image.detach().to_dtype(DType::F64)?.to_vec()?;
    let original = painted.clone();
    let area = h * w;
    let mut times = vec![0u32; area];
    for (mask, color) in covered
        .chunks_exact(area.max(1))
        .zip(options.colors.take(OP, n)?)
    {
        for (i, _) in mask.iter().enumerate().filter(|(_, m)| **m) {
            times[i] += 1;
            for (c, v) in color.0.iter().enumerate() {
                painted[c * area + i] = if times[i] > 1 {
                    0.0
                } else {
                    f64::from(*v) * scale
                };
            }
        }
    }
    let alpha = options.alpha;
    let mix = |(a, b): (&f64, &f64)| match dtype {
        DType::F64 => a * (1.0 - alpha) + b * alpha,
        _ => f64::from(*a as f32 * (1.0 - alpha) as f32 + *b as f32 * alpha as f32),
    };
    let mixed: Vec<f64> = original.iter().zip(&painted).map(mix).collect();
    Tensor::from_slice(&mixed, [3, h, w], DType::F64, Device::Cpu)?
        .to_dtype(dtype)?
        .to_device(image.device())
}

/// The image with key points: [`draw_keypoints_with`] and the defaults.
///
/// ```
/// use torsh_tensor::{DType, tensor, zeros};
/// use torsh_vision::utils::draw_keypoints;
/// let black = zeros([3, 9, 9]).to_dtype(DType::U8)?;
/// let drawn = draw_keypoints(&black, &tensor![[[4.0, 4.0]]])?;
/// // A white disc of radius 2.
/// assert_eq!(drawn.i((0, 4))?.to_vec::<u8>()?, [0, 0, 255, 255, 255, 255, 255, 0, 0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`draw_keypoints_with`].
#[track_caller]
pub fn draw_keypoints(image: &Tensor, keypoints: &Tensor) -> Result<Tensor> {
    draw_keypoints_with(image, keypoints, KeyPointOptions::new())
}

/// The image `[3, height, width]` with key points `[instances, points, 2]` of x and y, and white lines between them.
///
/// ```
/// use torsh_tensor::{DType, tensor, zeros};
/// use torsh_vision::utils::{KeyPointOptions, draw_keypoints_with};
/// let black = zeros([3, 5, 9]).to_dtype(DType::U8)?;
/// let options = KeyPointOptions::new().radius(0).width(1).connectivity([(0, 1)]);
/// let drawn = draw_keypoints_with(&black, &tensor![[[1.0, 2.0], [6.0, 2.0]]], options)?;
/// assert_eq!(drawn.i((0, 2))?.to_vec::<u8>()?, [0, 255, 255, 255, 255, 255, 255, 0, 0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Other shapes, a connection of a point that is not there.
#[torsh_tensor::names_caller]
pub fn draw_keypoints_with(
    image: &Tensor,
    keypoints: &Tensor,
    options: KeyPointOptions,
) -> Result<Tensor> {
    const OP: &str = "draw_keypoints";
    let mut canvas = canvas(OP, image, false)?;
    let [n, k, 2] = *keypoints.dims() else {
        return Err(TorshError::shape(
            OP,
            format!(
                "key points are [instances, points, 2], got {}",
                keypoints.describe()
            ),
        ));
    };
    let visible = match &options.visibility {
        None => vec![true; n * k],
        Some(v) if v.numel() == n * k => v.to_dtype(DType::Bool)?.to_vec()?,
        Some(v) => {
            return Err(TorshError::shape(
                OP,
                format!("visibility is [{n}, {k}], got {}", v.describe()),
            ));
        }
    };
    if let Some(bad) = options
        .connectivity
        .iter()
        .find(|(a, b)| *a >= k || *b >= k)
    {
        return Err(TorshError::invalid(
            OP,
            format!("the connection {bad:?} is beyond {k} points"),
        ));
    }
    let points: Vec<[i64; 2]> = keypoints
        .to_dtype(DType::F64)?
        .to_vec::<f64>()?
        .chunks_exact(2)
        .map(|p| [pixel(p[0]), pixel(p[1])])
        .collect();
    for (points, visible) in points
        .chunks_exact(k.max(1))
        .zip(visible.chunks_exact(k.max(1)))
    {
        for (&[x, y], _) in points.iter().zip(visible).filter(|(_, v)| **v) {
            canvas.disc(x, y, options.radius as i64, options.colors);
        }
        for &(a, b) in &options.connectivity {
            if visible[a] && visible[b] {
                let at = |i: usize| points[i].map(|v| v as f64);
                canvas.line(at(a), at(b), options.width, Color::WHITE);
            }
        }
    }
    finished(&canvas, image)
}

/// The colours of the directions of a flow (S. Baker et al., "A database and evaluation methodology for optical flow",
/// 2011): how many steps there are from red to yellow, green, cyan, blue, magenta and red again.
fn color_wheel() -> Vec<[f32; 3]> {
    // Which channel stays, which one rises or falls.
    const PARTS: [(usize, usize, usize, bool); 6] = [
        (15, 0, 1, true),
        (6, 1, 0, false),
        (4, 1, 2, true),
        (11, 2, 1, false),
        (13, 2, 0, true),
        (6, 0, 2, false),
    ];
    let mut wheel = Vec::new();
    for (steps, full, moves, rises) in PARTS {
        for i in 0..steps {
            let part = (255.0 * i as f32 / steps as f32).floor();
            let mut color = [0.0; 3];
            color[full] = 255.0;
            color[moves] = if rises { part } else { 255.0 - part };
            wheel.push(color);
        }
    }
    wheel
}

/// An optical flow `[2, height, width]`, or a batch of them, as an image of uint8 with three channels: the direction is
/// the hue, the length the saturation.
///
/// # Errors
/// Not float32, another shape.
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::utils::flow_to_image;
/// assert_eq!(flow_to_image(&zeros([2, 1, 1]))?.to_vec::<u8>()?, [255, 255, 255]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn flow_to_image(flow: &Tensor) -> Result<Tensor> {
    const OP: &str = "flow_to_image";
    let (n, h, w) = match *flow.dims() {
        [2, h, w] => (1, h, w),
        [n, 2, h, w] => (n, h, w),
        _ => {
            return Err(TorshError::shape(
                OP,
                format!(
                    "a flow is [2, height, width] or [n, 2, height, width], got {}",
                    flow.describe()
                ),
            ));
        }
    };
    if flow.dtype() != DType::F32 {
        return Err(TorshError::dtype(
            OP,
            format!("a flow is float32, got {}", flow.describe()),
        ));
    }
    let data = flow.to_vec::<f32>()?;
    let area = h * w;
    let each = || {
        data.chunks_exact((2 * area).max(1))
            .map(|f| f.split_at(area))
    };
    let longest = each()
        .flat_map(|(x, y)| x.iter().zip(y))
        .map(|(x, y)| (x * x + y * y).sqrt())
        .fold(0.0, f32::max)
        + f32::EPSILON;
    let wheel = color_wheel();
    let mut out = vec![0u8; 3 * n * area];
    for ((xs, ys), out) in each().zip(out.chunks_exact_mut((3 * area).max(1))) {
        for i in 0..area {
            let (x, y) = (xs[i] / longest, ys[i] / longest);
            let norm = (x * x + y * y).sqrt();
            let a = (-y).atan2(-x) / std::f32::consts::PI;
            let at = (a + 1.0) / 2.0 * (wheel.len() - 1) as f32;
            let k = at.floor();
            let part = at - k;
            // Beyond the end only where no number is.
            let k = (k.max(0.0) as usize).min(wheel.len() - 1);
            let next = (k + 1) % wheel.len();
            for c in 0..3 {
                let color = (1.0 - part) * (wheel[k][c] / 255.0) + part * (wheel[next][c] / 255.0);
                out[c * area + i] = (255.0 * (1.0 - norm * (1.0 - color))).floor() as u8;
            }
        }
    }
    let shape = if flow.ndim() == 3 {
        vec![3, h, w]
    } else {
        vec![n, 3, h, w]
    };
    Tensor::from_bytes(&out, DType::U8, shape)?.to_device(flow.device())
}
