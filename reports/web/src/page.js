// Pages whose figures are plain: colours, folding, search, and the points of a scatter. Without this
// script everything is there but these.
import { startFolding } from './folding.js';
import { startPoints } from './points.js';
import { startFilters } from './tables.js';
import { startTheme } from './theme.js';

document.documentElement.classList.add('js-page');
startTheme(() => {});
startFolding();
startFilters(startPoints());
document.body.dataset.report = 'drawn';
