@problemName strokes
@timeStamps false
@missing false
@univariate false
@dimensions 2
@equalLength true
@seriesLength 8
@classLabel true across down
@data
0,1,2,3,4,5,6,7:0,0,1,0,0,1,0,0:across
0,0,1,0,0,1,0,0:0,1,2,3,4,5,6,7:down
1,2,3,4,5,6,7,8:1,0,0,1,0,0,1,0:across
1,0,0,1,0,0,1,0:1,2,3,4,5,6,7,8:down
