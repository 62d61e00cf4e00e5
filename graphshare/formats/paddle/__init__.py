"""PaddlePaddle 3's graph JSON (PIR): the codec of its two files, and what the format knows of its graphs."""
