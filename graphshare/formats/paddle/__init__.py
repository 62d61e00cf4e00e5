"""PaddlePaddle 3's graph JSON (PIR): the codec of its two files, and the format's knowledge about its graphs."""
