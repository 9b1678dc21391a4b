# Makes the images of this folder, with Pillow.
from PIL import Image
import numpy as np, zlib, struct
import os
d = os.path.dirname(os.path.abspath(__file__)) + '/'
px=np.array([[[255,0,0],[0,255,0]],[[0,0,255],[200,100,50]]],np.uint8)
im=Image.fromarray(px); im.save(d+'rgb.png')
rgba=np.dstack([px,np.array([[255,0],[128,7]],np.uint8)]); Image.fromarray(rgba,'RGBA').save(d+'rgba.png')
p=Image.new('P',(2,2)); p.putpalette(list(px.reshape(-1))); p.putdata([0,1,2,3]); p.save(d+'palette.png')
def png(w,h,bits,ctype,rows,interlace=0):
    def ch(t,b): return struct.pack('>I',len(b))+t+b+struct.pack('>I',zlib.crc32(t+b))
    return b'\x89PNG\r\n\x1a\n'+ch(b'IHDR',struct.pack('>IIBBBBB',w,h,bits,ctype,0,0,interlace))+ch(b'IDAT',zlib.compress(rows))+ch(b'IEND',b'')
# Adam7 of 2x2: pass 1: (0,0); pass 6: (0,1) ; pass 7: row 1
rows=b'\0'+px[0,0].tobytes()+b'\0'+px[0,1].tobytes()+b'\0'+px[1].tobytes()
open(d+'interlaced.png','wb').write(png(2,2,8,2,rows,1))
assert (np.array(Image.open(d+'interlaced.png'))==px).all()
open(d+'grey2.png','wb').write(png(2,2,2,0,bytes([0,0b00010000,0,0b10110000])))
g=np.array([[0,85],[170,255]],np.uint16)*257
open(d+'grey16.png','wb').write(png(2,2,16,0,b'\0'+g[0].astype('>u2').tobytes()+b'\0'+g[1].astype('>u2').tobytes()))
ga=np.array([[[0,9],[85,200]],[[170,0],[255,255]]],np.uint8); Image.fromarray(ga,'LA').save(d+'grey_alpha.png')
print(np.array(Image.open(d+'grey2.png').convert('L')), np.array(Image.open(d+'grey16.png'))//257)
y,x=np.mgrid[0:16,0:24]
c=np.stack([x*10,y*15,255-x*5-y*5],-1).astype(np.uint8)
Image.fromarray(c).save(d+'colours.jpeg',quality=90)
Image.open(d+'colours.jpeg').convert('RGB').save(d+'colours.png')
Image.new('L',(4,4),128).save(d+'grey.jpeg')
