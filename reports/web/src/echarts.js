// The parts of ECharts that the charts use; everything else is left out of the bundle.
import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from 'echarts/charts';
import {
  AriaComponent,
  DataZoomInsideComponent,
  DataZoomSliderComponent,
  GridComponent,
  MarkLineComponent,
  TooltipComponent,
  VisualMapContinuousComponent,
} from 'echarts/components';
import * as echarts from 'echarts/core';
import { LabelLayout } from 'echarts/features';
import { CanvasRenderer } from 'echarts/renderers';

echarts.use([
  AriaComponent, BarChart, CanvasRenderer, CustomChart, DataZoomInsideComponent, DataZoomSliderComponent,
  GridComponent, HeatmapChart, LabelLayout, LineChart, MarkLineComponent, ScatterChart, TooltipComponent,
  VisualMapContinuousComponent,
]);

export { echarts };
